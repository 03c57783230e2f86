# A prefix that stands in for ASCEND_HOME_PATH: one real library in lib64, CANN's names beside it, everything again in lib.
include(CMakePackageConfigHelpers)

set(cann_libraries ascendcl acl_rt nnopbase opapi opapi_math opapi_nn opapi_transformer cust_opapi hccl hcomm)

install(TARGETS gradus LIBRARY DESTINATION lib64)
if(TARGET gradus_gloo)
  install(TARGETS gradus_gloo LIBRARY DESTINATION lib64)
endif()
install(DIRECTORY include/ DESTINATION include)
foreach(header ${operator_headers})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/installed/level2/${header} CONTENT "#include \"../${header}\"\n")
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/installed/level2 DESTINATION include/aclnnop)

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

install(FILES cmake/set_env.sh DESTINATION .)

configure_package_config_file(cmake/gradus-config.cmake.in ${PROJECT_BINARY_DIR}/gradus-config.cmake
  INSTALL_DESTINATION lib/cmake/gradus)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gradus-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gradus-config.cmake ${PROJECT_BINARY_DIR}/gradus-config-version.cmake
  DESTINATION lib/cmake/gradus)

configure_file(cmake/gradus.pc.in ${PROJECT_BINARY_DIR}/gradus.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradus.pc DESTINATION lib/pkgconfig)
