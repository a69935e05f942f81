# The libraries we build on: the system's packages first, a download by pinned hash only where asked for.
include(FetchContent)
if(WHATFITS_FETCH)
  FetchContent_Declare(nlohmann_json
    URL https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
    URL_HASH SHA256=d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d
    FIND_PACKAGE_ARGS 3.11)
  FetchContent_MakeAvailable(nlohmann_json)
elseif(EMSCRIPTEN)
  # The system's copy lies in /usr/include, which must never be on Emscripten's path: only its own folder goes there.
  find_path(WHATFITS_JSON_INCLUDE nlohmann/json.hpp PATHS /usr/include /usr/local/include
            NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/json)
  file(CREATE_LINK ${WHATFITS_JSON_INCLUDE}/nlohmann ${CMAKE_BINARY_DIR}/json/nlohmann SYMBOLIC)
  add_library(nlohmann_json INTERFACE)
  add_library(nlohmann_json::nlohmann_json ALIAS nlohmann_json)
  target_include_directories(nlohmann_json SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/json)
else()
  find_package(nlohmann_json 3.11 REQUIRED)
endif()

if(NOT EMSCRIPTEN)
  find_package(CLI11 2 REQUIRED)
  find_package(ZLIB REQUIRED)
endif()
if(WHATFITS_TESTS AND NOT EMSCRIPTEN)
  if(WHATFITS_FETCH)
    FetchContent_Declare(Catch2
      URL https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
      URL_HASH SHA256=c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c
      FIND_PACKAGE_ARGS 3)
    FetchContent_MakeAvailable(Catch2)
    if(Catch2_SOURCE_DIR)
      list(APPEND CMAKE_MODULE_PATH ${Catch2_SOURCE_DIR}/extras)
    endif()
  else()
    find_package(Catch2 3 REQUIRED)
  endif()
endif()
if(WHATFITS_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
