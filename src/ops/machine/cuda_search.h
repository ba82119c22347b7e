// The steps of load_cuda(), each of which says what stands in its way. Apart from it for the tests, which take a step
// with libraries of their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "ops/machine/cuda.h"

namespace hone::ops {

using CudaObstacle = std::optional<base::ErrorText>;  // none: the step is done

// The files of the libraries that this process has loaded, as the dynamic linker names them.
std::vector<std::string> loaded_libraries();

// The version of the libtorch that is loaded, which may not be the one that hone was compiled with: "2.11.0"; empty: not told.
std::string loaded_torch();

// Fills library, torch and cuda: libtorch_cuda.so beside the one libtorch_cpu.so among `libraries`.
CudaObstacle find_libtorch_cuda(CudaState& state, const std::vector<std::string>& libraries,
                                const std::string& torch = loaded_torch());

// Fills driver. `cuda`: what the driver has to serve, of which the major version counts; 0: any.
CudaObstacle ask_driver(CudaDriver& driver, std::int64_t cuda);

// Explains a message of the dynamic linker: "libcublas.so.13: cannot open shared object file: ...".
base::ErrorText explain_linker(const std::string& message, std::int64_t cuda);

// Whether the libraries of CUDA come from the folder of libtorch_cpu.so, after they were loaded.
CudaObstacle check_folders(const std::vector<std::string>& libraries);

std::string cuda_version(std::int64_t version);  // 13000: "13.0"

}  // namespace hone::ops
