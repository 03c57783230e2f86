# Two layouts. The usual one is a prefix that stands in for ASCEND_HOME_PATH: one real library in lib64, CANN's names
# beside it, everything again in lib. GRADUS_SYSTEM_LAYOUT is for distributions, whose directories a real CANN may share:
# the library and the headers where the system keeps such things, and CANN's names as links in a prefix of their own.
include(CMakePackageConfigHelpers)

set(cann_libraries ascendcl acl_rt nnopbase opapi opapi_math opapi_nn opapi_transformer cust_opapi hccl hcomm)

if(GRADUS_SYSTEM_LAYOUT)
  include(GNUInstallDirs)
  set(library_dir ${CMAKE_INSTALL_LIBDIR})
  set(module_dir ${library_dir}/gradus)  # what is opened, never linked
  set(include_dir ${CMAKE_INSTALL_INCLUDEDIR}/gradus)
  set(config_dir ${library_dir})
  set(cann_dir lib/gradus)
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libs "-L\${libdir} -lgradus")
else()
  set(library_dir lib64)
  set(module_dir lib64)
  set(include_dir include)
  set(config_dir lib)
  set(cann_dir .)
  set(pc_prefix "\${pcfiledir}/../..")
  set(pc_libs "-L\${libdir} -lgradus -Wl,-rpath,\${libdir}")
  set_target_properties(gradus_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../lib64")
endif()

install(TARGETS gradus LIBRARY DESTINATION ${library_dir})
if(TARGET gradus_gloo)
  install(TARGETS gradus_gloo LIBRARY DESTINATION ${module_dir})
endif()
install(DIRECTORY include/ DESTINATION ${include_dir})
foreach(header ${operator_headers})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/installed/level2/${header} CONTENT "#include \"../${header}\"\n")
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/installed/level2 DESTINATION ${include_dir}/aclnnop)

if(GRADUS_SYSTEM_LAYOUT)
  install(CODE "
    set(cann \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${cann_dir}\")
    file(MAKE_DIRECTORY \"\${cann}/lib64\")
    file(CREATE_LINK ../../${include_dir} \"\${cann}/include\" SYMBOLIC)
    file(CREATE_LINK lib64 \"\${cann}/lib\" SYMBOLIC)
    foreach(name gradus ${cann_libraries})
      file(CREATE_LINK ../../../${library_dir}/libgradus.so \"\${cann}/lib64/lib\${name}.so\" SYMBOLIC)
    endforeach()
  ")
else()
  install(CODE "
    set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
    file(MAKE_DIRECTORY \"\${root}/lib\")
    foreach(name ${cann_libraries})
      file(CREATE_LINK libgradus.so \"\${root}/lib64/lib\${name}.so\" SYMBOLIC)
    endforeach()
    foreach(name gradus ${cann_libraries})
      file(CREATE_LINK ../lib64/lib\${name}.so \"\${root}/lib/lib\${name}.so\" SYMBOLIC)
    endforeach()
    file(CREATE_LINK ../lib64/libgradus.so.${PROJECT_VERSION_MAJOR} \"\${root}/lib/libgradus.so.${PROJECT_VERSION_MAJOR}\" SYMBOLIC)
  ")
endif()

install(FILES cmake/set_env.sh DESTINATION ${cann_dir})

configure_package_config_file(cmake/gradus-config.cmake.in ${PROJECT_BINARY_DIR}/gradus-config.cmake
  INSTALL_DESTINATION ${config_dir}/cmake/gradus)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gradus-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gradus-config.cmake ${PROJECT_BINARY_DIR}/gradus-config-version.cmake
  DESTINATION ${config_dir}/cmake/gradus)

configure_file(cmake/gradus.pc.in ${PROJECT_BINARY_DIR}/gradus.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradus.pc DESTINATION ${config_dir}/pkgconfig)
