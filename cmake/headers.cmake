# The public headers as users see them: include/, plus aclnnop/level2/ where every operator header has its name again.
set(GRADUS_LEVEL2_DIR ${PROJECT_BINARY_DIR}/include)
file(GLOB operator_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include/aclnnop
     ${PROJECT_SOURCE_DIR}/include/aclnnop/*.h)
foreach(header ${operator_headers})
  file(CONFIGURE OUTPUT ${GRADUS_LEVEL2_DIR}/aclnnop/level2/${header} CONTENT "#include \"aclnnop/${header}\"\n")
endforeach()

add_library(gradus_headers INTERFACE)
target_include_directories(gradus_headers INTERFACE ${PROJECT_SOURCE_DIR}/include ${GRADUS_LEVEL2_DIR})
