# The card's tests without a card (tests/cuda_on_host): src/backend/cuda and its tests are compiled once more, for a host that
# stands in for CUDA's runtime, for cuBLASLt and for cards' instructions. Kernels' files become C++ (translate.cmake).

# snug_cuda_on_host(): the program test_cuda_on_host.
function(snug_cuda_on_host)
  set(home "${CMAKE_SOURCE_DIR}/tests/cuda_on_host")
  set(made "${CMAKE_BINARY_DIR}/cuda_on_host")
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/backend/cuda/*.cu"
    "${CMAKE_SOURCE_DIR}/src/backend/cuda/*.cuh")
  list(FILTER kernels EXCLUDE REGEX "/instructions/")
  set(sources)
  foreach(kernel IN LISTS kernels)
    file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}/src" "${kernel}")
    string(REGEX REPLACE "\\.cu$" ".cc" path "${path}")
    add_custom_command(OUTPUT "${made}/${path}" DEPENDS "${kernel}" "${home}/translate.cmake" VERBATIM
      COMMAND "${CMAKE_COMMAND}" "-DIN=${kernel}" "-DOUT=${made}/${path}" -P "${home}/translate.cmake"
      COMMENT "")
    list(APPEND sources "${made}/${path}")
  endforeach()
  # What launches them, but for cuBLASLt's products.
  file(GLOB_RECURSE launchers CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/backend/cuda/*.cc")
  list(FILTER launchers EXCLUDE REGEX "/blas\\.cc$")
  list(APPEND sources ${launchers})
  file(GLOB own CONFIGURE_DEPENDS "${home}/*.cc")
  add_library(snug_cuda_on_host OBJECT ${sources} ${own})
  target_include_directories(snug_cuda_on_host BEFORE PUBLIC "${home}" "${made}" "${CMAKE_SOURCE_DIR}/tests"
    "${CMAKE_SOURCE_DIR}/src" ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(snug_cuda_on_host PRIVATE snug_options fmt::fmt PkgConfig::OPENBLAS)
  # Without warnings: nvcc warns of what there is to warn of. Registers are read as pairs of numbers and as words.
  target_compile_options(snug_cuda_on_host PRIVATE -w -O1 -fno-strict-aliasing)
  set_source_files_properties("${home}/products.cc" PROPERTIES COMPILE_OPTIONS -O3)

  file(GLOB tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/cuda/*.cc" "${CMAKE_SOURCE_DIR}/tests/cuda/training/*.cc")
  add_executable(test_cuda_on_host ${tests})
  target_include_directories(test_cuda_on_host BEFORE PRIVATE "${home}" "${made}" "${CMAKE_SOURCE_DIR}/tests"
    ${CUDAToolkit_INCLUDE_DIRS})
  snug_test_paths(test_cuda_on_host ".")
  target_compile_options(test_cuda_on_host PRIVATE -O0)  # as all tests
  target_link_libraries(test_cuda_on_host PRIVATE $<TARGET_OBJECTS:snug_cuda_on_host> snug_train GTest::gtest_main)
endfunction()
