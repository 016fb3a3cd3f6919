# cmake -DIN=kernel.cu -DOUT=kernel.cc -P translate.cmake: writes a kernel's file as C++. Launches and dynamic shared
# memory have another spelling there. (Instructions are functions of backend/cuda/instructions.cuh, which has a
# counterpart here; device.h has the rest.)
file(READ "${IN}" text)
string(REGEX REPLACE "([A-Za-z_0-9]+(<[^;{]*>)?)[ \n]*<<<"
  "snug::cuda_on_host::a_kernel([=](auto&&... values) { \\1(values...); })->*snug::cuda_on_host::Launching(" text "${text}")
string(REPLACE ">>>(" ")(" text "${text}")
string(REGEX REPLACE "extern __shared__ (__align__\\([0-9]+\\) )?([a-z ]+) ([a-z_]+)\\[\\];"
  "auto* \\3 = reinterpret_cast<\\2*>(snug::cuda_on_host::dynamic_shared());" text "${text}")
set(begin "")
if(NOT IN MATCHES "\\.cuh$")
  set(begin "#include \"cuda_on_host/device.h\"\n")
endif()
file(WRITE "${OUT}" "${begin}#line 1 \"${IN}\"\n${text}")
