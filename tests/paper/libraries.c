// What stubs.py puts into the stub libraries in place of functions that return 0: those whose answers libtorch looks at.
// LIB_<name> is defined for the library that is being made. The signatures are as narrow as what is done needs.
#include <stdlib.h>
#include <string.h>

#ifdef LIB_libcublas_so_13
long cublasGetPointerMode_v2(void* handle, int* mode) { *mode = 0; return 0; }
long cublasGetMathMode(void* handle, int* mode) { *mode = 0; return 0; }
#endif

#ifdef LIB_libcublasLt_so_13
long cublasLtGetVersion(void) { return 130100; }
// One way to multiply, which needs no workspace: sizeof(cublasLtMatmulHeuristicResult_t) is 96.
long cublasLtMatmulAlgoGetHeuristic(void* handle, void* what, void* a, void* b, void* c, void* d, void* preference,
                                    int wanted, void* results, int* found) {
  memset(results, 0, 96);
  *found = 1;
  return 0;
}
#endif

#ifdef LIB_libcudnn_so_9
long cudnnGetVersion(void) { return 91900; }
long cudnnGetCudartVersion(void) { return 13000; }
long cudnnBackendCreateDescriptor(int type, void** out) { *out = malloc(64); return 0; }
#endif

#ifdef LIB_libnccl_so_2
long ncclGetVersion(int* version) { *version = 22809; return 0; }
#endif
