#include "doctor/probes/machine/device_machine.h"

#include <dlfcn.h>

#include <string_view>

#include "base/files/file.h"
#include "ops/machine/cuda.h"
#include "ops/machine/cuda_search.h"
#include "ops/machine/device_memory.h"

namespace hone::doctor {

namespace {

std::string version_text(std::int64_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// The name of the card as a word of its own: an H200 is no H20.
bool names_card(const std::string& text, std::string_view card) {
  const auto at = text.find(card);
  if (at == std::string::npos) return false;
  const std::size_t end = at + card.size();
  return end == text.size() || text[end] == ' ' || text[end] == '-';
}

}  // namespace

std::int64_t cublas_version() {
  using Property = int (*)(int, int*);  // cublasGetProperty: 0, 1 and 2 are major, minor and patch
  const auto ask = reinterpret_cast<Property>(dlsym(RTLD_DEFAULT, "cublasGetProperty"));
  int major = 0, minor = 0, patch = 0;
  if (ask == nullptr || ask(0, &major) != 0 || ask(1, &minor) != 0 || ask(2, &patch) != 0) return 0;
  return 10000LL * major + 100LL * minor + patch;
}

std::string describe_device(at::Device device) {
  if (ops::is_host(device)) return "";
  std::string out = device.str();
  if (!device.is_cuda()) return out;
  const ops::CudaState& cuda = ops::load_cuda();
  out += ", " + ops::describe(cuda.driver, device.index()) + ", " + ops::versions(cuda);
  if (const std::int64_t cublas = cublas_version(); cublas > 0) out += ", cuBLAS " + version_text(cublas);
  for (const std::string& library : ops::loaded_libraries()) {
    const base::fs::path path(library);
    const std::string name = path.filename().string();
    if (!name.starts_with("libcublas") && !name.starts_with("libtorch_cuda")) continue;
    std::error_code none;
    const auto size = base::fs::file_size(path, none);
    if (none) continue;
    out += ", " + name + " " + std::to_string(size) + " " +
           std::to_string(base::fs::last_write_time(path, none).time_since_epoch().count());
  }
  return out;
}

std::string known_crash(const std::string& card, std::int64_t cublas) {
  constexpr std::int64_t kFirstRight = 120405;  // of CUDA 12.4.1: 12.4.5.8
  if (cublas == 0 || cublas >= kFirstRight || !names_card(card, "H20")) return "";
  return "cuBLAS " + version_text(cublas) + " on " + card + ": versions before 12.4.5.8 raise SIGFPE there";
}

}  // namespace hone::doctor
