// The compiler has this file too (host_defines.h beside this one): it says which compilers of the host nvcc
// takes. Nothing is compiled for a card here.
#pragma once
