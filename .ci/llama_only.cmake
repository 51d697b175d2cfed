# Read by CMake within llama.cpp's project: what only its command-line tools use is left out, half of
# all. llama-cpp-python asks for it with FORCE, so a -D does not.
set(LLAMA_BUILD_COMMON OFF)
