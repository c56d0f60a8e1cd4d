# slice_bpf_skeleton: the XDP program compiled for BPF, and bpftool's skeleton of
# it, as the header "slice_proxy.skel.h". Only control/ and tests link it.

find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)
find_program(BPF_CLANG NAMES clang-19 REQUIRED)
pkg_check_modules(LIBBPF REQUIRED IMPORTED_TARGET libbpf)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(SLICE_BPF_ARCH x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(SLICE_BPF_ARCH arm64)
else()
  set(SLICE_BPF_ARCH ${CMAKE_SYSTEM_PROCESSOR})
endif()

# slice_bpf_object(NAME SOURCE x.bpf.c): x.bpf.o and NAME.skel.h in the build folder of the caller.
function(slice_bpf_object name source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o)
  set(skeleton ${CMAKE_CURRENT_BINARY_DIR}/skeleton/${name}.skel.h)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${BPF_CLANG} -g -O2 -target bpf -mcpu=v3 -ffreestanding -fno-strict-aliasing
            -D__TARGET_ARCH_${SLICE_BPF_ARCH} -I${CMAKE_SOURCE_DIR}
            -I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE} -Wall -Wextra -Werror
            -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source}
    DEPFILE ${object}.d
    COMMENT "Compiling ${name} for BPF"
    VERBATIM)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/skeleton
    COMMAND sh -c "${BPFTOOL} gen skeleton ${object} name ${name} > ${skeleton}"
    DEPENDS ${object}
    COMMENT "Generating the skeleton of ${name}"
    VERBATIM)
  add_custom_target(${name}_skeleton DEPENDS ${skeleton})
  set_property(GLOBAL APPEND PROPERTY SLICE_GENERATED ${name}_skeleton)
endfunction()
