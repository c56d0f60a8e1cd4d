# What every folder's CMakeLists.txt uses: one library a folder, tests and
# benchmarks as neighbours of what they test, warnings as errors everywhere.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(GTest REQUIRED)
find_package(fmt REQUIRED)

option(SLICE_FUZZ "Build the libFuzzer targets" OFF)
set(SLICE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")

add_library(slice_options INTERFACE)
target_include_directories(slice_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(slice_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-designated-field-initializers
  -Wnon-virtual-dtor -Woverloaded-virtual -Wsuggest-override -Werror -fno-omit-frame-pointer
  # Where variables are is not told (-g1), and looking for it is 6 % of what a source takes to compile.
  -mllvm=-experimental-debug-variable-locations=false)
if(SLICE_SANITIZE)
  # With more functions inlined a sanitized simulation is a sixth faster, and a source takes a sixth longer to compile: there are
  # more of those.
  target_compile_options(slice_options INTERFACE -fsanitize=${SLICE_SANITIZE} -fno-sanitize-recover=all -mllvm=-inline-threshold=5)
  if(SLICE_SANITIZE MATCHES "undefined")
    # AddressSanitizer finds the same where it happens, and these two are a fifth of what a source takes to compile.
    target_compile_options(slice_options INTERFACE -fno-sanitize=null,object-size)
  endif()
  if(SLICE_SANITIZE MATCHES "address")
    # What a large function checks it calls for: the same checks in place cost a fifth of what a source takes to compile.
    target_compile_options(slice_options INTERFACE -mllvm=-asan-instrumentation-with-call-threshold=100)
  endif()
  target_link_options(slice_options INTERFACE -fsanitize=${SLICE_SANITIZE})
endif()
if(SLICE_FUZZ)
  target_compile_options(slice_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Programs and benchmarks take memory from tcmalloc: glibc's malloc was 12 to 24 % of what an operation cost, and
# gave freed buffers back to the system and faulted them in again (docs/measuring.md). Sanitizers bring their own.
if(SLICE_SANITIZE)
  set(SLICE_ALLOCATOR "")
else()
  find_library(SLICE_ALLOCATOR NAMES tcmalloc_minimal libtcmalloc_minimal.so.4 REQUIRED)
endif()

# Sources of a folder are compiled together, sixteen at a time, but in the preset `dev`: half of the time that they take is
# headers, which is then taken once. So what a source has for itself has a name that no other of its folder has.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
if(SLICE_SANITIZE)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 32)  # nobody waits there for one source that has changed
endif()

# Two thirds of what a source takes to compile are headers of the standard library, {fmt} and GoogleTest: they are
# compiled once. So tests/layers/check_includes.py has to show that every file includes what it uses.
# CMake has target_precompile_headers(), but writes paths where ccache takes them for words, so that nothing of another
# folder's build is found.
option(SLICE_PRECOMPILE "Compile the most used headers of libraries once" ON)

# slice_precompiled(NAME HEADERS vector... [FLAGS ...]): headers for slice_use_precompiled(), compiled with these flags too.
function(slice_precompiled name)
  cmake_parse_arguments(A "" "" "HEADERS;FLAGS" ${ARGN})
  if(NOT SLICE_PRECOMPILE)
    return()
  endif()
  list(TRANSFORM A_HEADERS REPLACE "(.+)" "#include <\\1>")
  list(JOIN A_HEADERS "\n" text)
  set(base ${CMAKE_BINARY_DIR}/precompiled/${name})
  file(CONFIGURE OUTPUT ${base}.h CONTENT "${text}\n" @ONLY)
  string(TOUPPER CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE} flags)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${${flags}}")
  add_custom_command(OUTPUT ${base}.pch DEPENDS ${base}.h DEPFILE ${base}.d COMMAND_EXPAND_LISTS
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CMAKE_CXX_COMPILER} ${flags} ${A_FLAGS} ${CMAKE_CXX20_STANDARD_COMPILE_OPTION} -fpch-instantiate-templates
      $<TARGET_PROPERTY:slice_options,INTERFACE_COMPILE_OPTIONS> -DFMT_SHARED -DGTEST_HAS_PTHREAD=1
      -Xclang -fno-pch-timestamp -MD -MF ${base}.d -x c++-header -c ${base}.h -o ${base}.pch)
  add_custom_target(${name} DEPENDS ${base}.pch)
endfunction()

function(slice_use_precompiled name headers)
  if(SLICE_PRECOMPILE)
    add_dependencies(${name} ${headers})
    target_compile_options(${name} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-include-pch> $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_BINARY_DIR}/precompiled/${headers}.pch>)
  endif()
endfunction()

set(SLICE_USUAL_HEADERS algorithm array chrono coroutine cstdint cstring deque filesystem functional list map memory
  optional random set span string string_view unordered_map unordered_set utility variant vector fmt/format.h)
slice_precompiled(slice_headers HEADERS ${SLICE_USUAL_HEADERS})
# Tests are compiled without optimization, what they test is not: two thirds of the time that they took were the optimizer's.
# Under the sanitizers what they test is optimized, too: a source then takes twice as long, and a simulation a sixth as long.
set(SLICE_TEST_FLAGS -O0)
if(CMAKE_UNITY_BUILD)
  # Where each line of it is takes a fifth more, and a test that fails says its line by itself. (Preset `dev` has it.)
  list(APPEND SLICE_TEST_FLAGS -g0)
endif()
# What a test itself computes is looked at for addresses alone; the rest is a sixth of what one takes to compile.
add_library(slice_test_options INTERFACE)
if(SLICE_SANITIZE MATCHES "undefined")
  target_compile_options(slice_test_options INTERFACE -fno-sanitize=undefined)
endif()
slice_precompiled(slice_test_headers HEADERS ${SLICE_USUAL_HEADERS} gtest/gtest.h gmock/gmock.h FLAGS ${SLICE_TEST_FLAGS})

# As tests are compiled.
function(slice_compile_as_test name)
  target_compile_options(${name} PRIVATE ${SLICE_TEST_FLAGS})
  slice_use_precompiled(${name} slice_test_headers)
endfunction()

# slice_library(NAME [TOOL|FOR_TESTS] SOURCES a.cc b.cc DEPS other_folder_libs...)
# Without SOURCES it is a library of headers. TOOL: no client waits for it, so it is optimized in a release alone. FOR_TESTS: it is
# not optimized in a release either.
function(slice_library name)
  cmake_parse_arguments(A "TOOL;FOR_TESTS" "" "SOURCES;DEPS" ${ARGN})
  if(A_SOURCES)
    add_library(${name} STATIC ${A_SOURCES})
    target_link_libraries(${name} PUBLIC slice_options fmt::fmt ${A_DEPS})
    if(A_FOR_TESTS OR (A_TOOL AND NOT CMAKE_BUILD_TYPE STREQUAL Release))
      slice_compile_as_test(${name})
    else()
      slice_use_precompiled(${name} slice_headers)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE slice_options fmt::fmt ${A_DEPS})
  endif()
endfunction()

# slice_program(NAME SOURCES main.cc DEPS ... [FOR_TESTS]): an executable in bin/, which is installed but where it is for tests.
function(slice_program name)
  cmake_parse_arguments(A "FOR_TESTS" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE slice_options ${A_DEPS} Threads::Threads ${SLICE_ALLOCATOR})
  slice_use_precompiled(${name} slice_headers)
  set_property(GLOBAL APPEND PROPERTY SLICE_PROGRAMS ${name})
  if(NOT A_FOR_TESTS)
    install(TARGETS ${name} RUNTIME DESTINATION bin)
    set_property(GLOBAL APPEND PROPERTY SLICE_INSTALLED_PROGRAMS ${name})
  endif()
endfunction()

# What tests with real processes and packets need besides the programs.
function(slice_needed_by_process_tests name)
  set_property(GLOBAL APPEND PROPERTY SLICE_PROCESS_TESTS ${name})
endfunction()

# slice_process_test(TEST [ALONE|BUSY]): three of them at a time, one of which may be BUSY, that is take both processors at times,
# or two that are; or nothing beside it but what runs when nothing else would. What is said is about tests of the stage `processes`,
# for which tests/run.py has ctest take seven for the number of processors.
function(slice_process_test test)
  if("ALONE" IN_LIST ARGN)
    set_tests_properties(${test} PROPERTIES PROCESSORS 6)
  elseif("BUSY" IN_LIST ARGN)
    set_tests_properties(${test} PROPERTIES PROCESSORS 3)
  else()
    set_tests_properties(${test} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# Each part is a process of its own, which runs when nothing else would, and writes its results to a file of its own, in
# the folder $SLICE_RESULTS (tests/run.py reads them).
function(slice_add_parts result name parts)
  set(named)
  foreach(part RANGE 1 ${parts})
    math(EXPR index "${part} - 1")
    add_test(NAME ${name}.${part} COMMAND ${CMAKE_SOURCE_DIR}/tests/idle.sh sh -c
      "GTEST_OUTPUT=xml:\${SLICE_RESULTS:-.}/${name}.${part}.xml exec $<TARGET_FILE:${name}>")
    set_tests_properties(${name}.${part} PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index}")
    list(APPEND named ${name}.${part})
  endforeach()
  set(${result} ${named} PARENT_SCOPE)
endfunction()

# slice_test(NAME SOURCES x_test.cc ... DEPS ... [LABELS unit|sim|packet|interop|cluster] [TIMEOUT s] [THREADS]
#            [ALLOCATOR] [LONG] [PARTS n])
# One GoogleTest program, one ctest entry, or PARTS of them that share its cases. The label `unit` is the default;
# `./slice test` runs unit and sim tests under the sanitizers, the others, which need root, as users have the programs:
# in the preset `release`. THREADS: what it tests is shared by threads, so it runs under ThreadSanitizer as well (preset
# `tsan`, label `threads`). ALLOCATOR: it takes memory from where programs do, so it is not there with sanitizers, and
# runs in `release` (label `plain`). LONG: it runs for half a minute and more, so it is optimized: inline functions of a
# test are those of what it tests, too. PARTS: it needs processor time alone, and so runs beside others
# (slice_process_test) with what they leave.
function(slice_test name)
  cmake_parse_arguments(A "THREADS;ALLOCATOR;LONG" "TIMEOUT;PARTS" "SOURCES;DEPS;LABELS" ${ARGN})
  if(A_ALLOCATOR AND SLICE_SANITIZE)
    return()
  endif()
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE slice_options slice_test_options ${A_DEPS} GTest::gmock GTest::gtest_main Threads::Threads)
  if(A_ALLOCATOR)
    target_link_libraries(${name} PRIVATE ${SLICE_ALLOCATOR})
  endif()
  if(A_ALLOCATOR)
    list(APPEND A_LABELS plain)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(tests ${name})
  if(A_PARTS)
    slice_add_parts(tests ${name} ${A_PARTS})
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT})
  if(A_LONG)
    slice_use_precompiled(${name} slice_headers)
  else()
    slice_compile_as_test(${name})
  endif()
  if(A_LABELS MATCHES "unit|sim" AND NOT A_ALLOCATOR)
    set_property(GLOBAL APPEND PROPERTY SLICE_SANITIZED_TESTS ${name})
  endif()
  if(A_ALLOCATOR OR NOT A_LABELS MATCHES "unit|sim")
    slice_needed_by_process_tests(${name})
  endif()
  if(A_ALLOCATOR OR NOT A_LABELS MATCHES "unit|sim")
    slice_process_test(${name})
  endif()
  if(A_THREADS)
    set_property(GLOBAL APPEND PROPERTY SLICE_THREADED_TESTS ${name})
    set_property(TEST ${name} APPEND PROPERTY LABELS threads)
    # What libraries do that are not built with ThreadSanitizer is not its business: it sees their accesses by way of
    # memcmp() and delete, and not the atomics that order them.
    set_property(TEST ${name} PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
  endif()
endfunction()

# slice_bench(NAME SOURCES x_bench.cc DEPS ...): a Google Benchmark program; never a test.
function(slice_bench name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  find_package(benchmark REQUIRED)
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE slice_options ${A_DEPS} benchmark::benchmark Threads::Threads ${SLICE_ALLOCATOR})
  slice_use_precompiled(${name} slice_headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  set_property(GLOBAL APPEND PROPERTY SLICE_BENCHMARKS ${name})
endfunction()

# slice_fuzz(NAME SOURCES x_fuzz.cc DEPS ...): a libFuzzer target (preset `fuzz`). In the other presets it becomes a test,
# NAME_short, that tries some thousand inputs, the same at every run (tests/fuzz_main.cc).
function(slice_fuzz name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT SLICE_FUZZ)
    add_executable(${name}_short ${A_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz_main.cc)
    target_link_libraries(${name}_short PRIVATE slice_options ${A_DEPS} Threads::Threads)
    slice_use_precompiled(${name}_short slice_headers)
    set_target_properties(${name}_short PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name}_short COMMAND ${name}_short)
    set_tests_properties(${name}_short PROPERTIES LABELS unit TIMEOUT 300)
    set_property(GLOBAL APPEND PROPERTY SLICE_SANITIZED_TESTS ${name}_short)
    return()
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE slice_options ${A_DEPS} Threads::Threads)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
