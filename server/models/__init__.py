"""The models of a server: loaded when they are asked for, unloaded when their memory is needed."""
