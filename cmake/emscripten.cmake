# Toolchain file of the preset `wasm`: finds Emscripten where tools/setup-wasm found or put it.
if(DEFINED ENV{EMSCRIPTEN_ROOT})
  set(WHATFITS_EMSCRIPTEN_ROOT $ENV{EMSCRIPTEN_ROOT})
elseif(NOT WHATFITS_EMSCRIPTEN_ROOT)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../tools/setup-wasm --print
    OUTPUT_VARIABLE WHATFITS_EMSCRIPTEN_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "Emscripten was not found: run tools/setup-wasm, or set EMSCRIPTEN_ROOT to the folder of em++")
  endif()
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WHATFITS_EMSCRIPTEN_ROOT)
include(${WHATFITS_EMSCRIPTEN_ROOT}/cmake/Modules/Platform/Emscripten.cmake)
