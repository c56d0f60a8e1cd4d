# What `cmake --install` puts beside the programs (slice_program()): units for systemd, manual pages, completion of slicectl, a
# configuration to begin with, documents. debian/ makes packages of the same tree.

# Files of deploy/ that name programs name them as the packages install them; here they get the prefix of the installation.
function(slice_install_with_prefix source destination)
  get_filename_component(name ${source} NAME)
  install(CODE "
    file(READ \"${CMAKE_SOURCE_DIR}/${source}\" text)
    string(REGEX REPLACE \"/usr/(bin|lib)/slice\" \"\${CMAKE_INSTALL_PREFIX}/\\\\1/slice\" text \"\${text}\")
    file(WRITE \"${CMAKE_BINARY_DIR}/install/${name}\" \"\${text}\")
    file(INSTALL \"${CMAKE_BINARY_DIR}/install/${name}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${destination}\"
         FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)")
endfunction()

file(GLOB units RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/deploy/systemd/*.service ${CMAKE_SOURCE_DIR}/deploy/systemd/*.target)
foreach(unit IN LISTS units)
  slice_install_with_prefix(${unit} lib/systemd/system)
endforeach()
install(FILES deploy/systemd/slice.sysusers DESTINATION lib/sysusers.d RENAME slice.conf)
install(FILES deploy/systemd/slice.tmpfiles DESTINATION lib/tmpfiles.d RENAME slice.conf)
install(FILES deploy/systemd/slice.sysctl DESTINATION lib/sysctl.d RENAME 60-slice.conf)
install(PROGRAMS deploy/systemd/proxy-network DESTINATION lib/slice)
install(PROGRAMS deploy/support/slice-support DESTINATION lib/slice)
install(PROGRAMS deploy/certificates.sh DESTINATION share/slice)
install(FILES deploy/mount.slice.8 DESTINATION share/man/man8)
# What mount(8) calls for file systems of type slice is slice-clientd by another name.
install(CODE "
  file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/sbin\")
  file(CREATE_LINK ../bin/slice-clientd \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/sbin/mount.slice\" SYMBOLIC)")
install(FILES deploy/completion/slicectl DESTINATION share/bash-completion/completions)
install(FILES deploy/ensemble.toml DESTINATION share/doc/slice/examples)
install(DIRECTORY docs/ DESTINATION share/doc/slice)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION share/doc/slice)

# Manual pages are what programs say of themselves, `--help`; where help2man is, by the target `man_pages`.
get_property(SLICE_ALL_INSTALLED GLOBAL PROPERTY SLICE_INSTALLED_PROGRAMS)
set(pages)
foreach(program IN LISTS SLICE_ALL_INSTALLED)
  set(section 8)
  if(program MATCHES "^(slicectl|slice-load)$")
    set(section 1)
  endif()
  set(page ${CMAKE_BINARY_DIR}/man/man${section}/${program}.${section})
  add_custom_command(OUTPUT ${page} DEPENDS ${program} ${CMAKE_SOURCE_DIR}/deploy/man_page.py
    COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/deploy/man_page.py $<TARGET_FILE:${program}> ${page}
    COMMENT "Manual page of ${program}" VERBATIM)
  list(APPEND pages ${page})
endforeach()
add_custom_target(man_pages DEPENDS ${pages})
install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION share/man OPTIONAL)
