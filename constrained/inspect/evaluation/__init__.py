"""Does a model call tools: what is asked, agent tasks in a scripted `world`, what came of it."""
