// Of the compiler too (host_defines.h beside this one): which compilers of the host nvcc takes. Nothing is compiled for a card here.
#pragma once
