// What cuda_runtime_api.h of the wheel nvidia-cuda-runtime takes from the compiler's own headers, which that wheel does not hold:
// the attributes of declarations, for a compiler that knows of no device.
#pragma once

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __no_return__ __attribute__((noreturn))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __location__(a)
#define __annotate__(a)
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#ifndef CUDARTAPI
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDAAPI
#endif
