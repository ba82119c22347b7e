#include "ops/machine/cuda_search.h"

#include <dlfcn.h>
#include <link.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace hone::ops {
namespace {

constexpr const char* kCpuLibrary = "libtorch_cpu.so";
constexpr const char* kCudaLibrary = "libtorch_cuda.so";

// The packages of PyPI that torch for CUDA requires, by the beginning of a library's name. `versioned`: in CUDA 13 the
// package's name ends with the version of CUDA too; before, all of them did.
struct Package {
  std::string_view library, name;
  bool versioned;
};
constexpr std::array<Package, 15> kPackages = {{{"libcudart.", "nvidia-cuda-runtime", false},
                                                {"libcublas", "nvidia-cublas", false},
                                                {"libcufft", "nvidia-cufft", false},
                                                {"libcufile", "nvidia-cufile", false},
                                                {"libcupti", "nvidia-cuda-cupti", false},
                                                {"libcurand", "nvidia-curand", false},
                                                {"libcusolver", "nvidia-cusolver", false},
                                                {"libcusparseLt", "nvidia-cusparselt", true},
                                                {"libcusparse", "nvidia-cusparse", false},
                                                {"libnvJitLink", "nvidia-nvjitlink", false},
                                                {"libnvrtc", "nvidia-cuda-nvrtc", false},
                                                {"libnvToolsExt", "nvidia-nvtx", false},
                                                {"libcudnn", "nvidia-cudnn", true},
                                                {"libnccl", "nvidia-nccl", true},
                                                {"libnvshmem", "nvidia-nvshmem", true}}};

std::string package_of(const std::string& library, std::int64_t cuda) {
  constexpr std::int64_t kFirstWithout = 13;
  const std::int64_t major = cuda > 0 ? cuda / 1000 : kFirstWithout;
  for (const Package& one : kPackages) {
    if (!library.starts_with(one.library)) continue;
    const bool versioned = one.versioned || major < kFirstWithout;
    return std::string(one.name) + (versioned ? "-cu" + std::to_string(major) : "");
  }
  return "";
}

// "2.11" of "2.11.0": releases of one minor version are exchangeable, as the wheel of hone asks for torch 2.11.
std::string minor_version(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

// The version of the CUDA runtime, which libtorch_cpu.so of a torch with CUDA loads too.
std::int64_t runtime_version() {
  using Version = int (*)(int*);
  const auto ask = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "cudaRuntimeGetVersion"));
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

// A folder as the linker names it, from where libraries find others beside themselves, and where it really is.
struct Folder {
  base::fs::path named, real;
};

// The folders of the loaded libraries of this name, each once.
std::vector<Folder> folders_of(const std::vector<std::string>& libraries, std::string_view name) {
  std::vector<Folder> out;
  for (const std::string& one : libraries) {
    const base::fs::path path(one);
    if (path.filename() != name) continue;
    std::error_code failed;
    const base::fs::path real = base::fs::weakly_canonical(path, failed);
    const Folder folder = {path.parent_path(), (failed ? path : real).parent_path()};
    const auto same = [&](const Folder& other) { return other.real == folder.real; };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(folder);
  }
  return out;
}

base::ErrorText two_torches(const Folder& one, const Folder& other) {
  return {
      .found = "two torches in this process, of " + one.named.string() + " and of " + other.named.string(),
      .cause = "LD_LIBRARY_PATH or LD_PRELOAD names the folder of another Python's torch",
      .fix = "take it out of LD_LIBRARY_PATH and LD_PRELOAD"};
}

}  // namespace

std::string loaded_torch() {
  using Version = std::uint64_t (*)();
  const auto ask = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  if (ask == nullptr) return "";
  const std::uint64_t version = ask();  // a byte each: major, minor, patch
  const auto part = [version](unsigned shift) { return std::to_string(version >> shift & 0xff); };
  return part(56) + "." + part(48) + "." + part(40);
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> out;
  const auto note = [](dl_phdr_info* info, std::size_t, void* names) {
    if (info->dlpi_name != nullptr && *info->dlpi_name != '\0')
      static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(note, &out);
  return out;
}

CudaObstacle find_libtorch_cuda(CudaState& state, const std::vector<std::string>& libraries,
                                const std::string& torch) {
  const std::vector<Folder> folders = folders_of(libraries, kCpuLibrary);
  const std::string install = "pip install 'torch==" + minor_version(TORCH_VERSION) + ".*'";
  if (folders.empty())
    return base::ErrorText{.found = "this process has loaded no libtorch_cpu.so",
                           .cause = "libtorch is linked in another way than hone's builds do",
                           .fix = "use hone's wheel, or ./quickstart"};
  if (folders.size() > 1) return two_torches(folders[0], folders[1]);
  state.library = (folders.front().named / kCudaLibrary).string();
  state.torch = torch;
  state.cuda = runtime_version();
  if (!state.torch.empty() && minor_version(state.torch) != minor_version(TORCH_VERSION))
    return base::ErrorText{.found = "torch " + state.torch + " in " + folders.front().named.string(),
                           .cause = "this hone is built for torch " + minor_version(TORCH_VERSION),
                           .fix = install};
  std::error_code failed;
  if (base::fs::exists(state.library, failed)) return std::nullopt;
  return base::ErrorText{
      .found = "the torch in " + folders.front().named.string() + " has no libtorch_cuda.so",
      .cause = "it is the torch for CPUs, or an installation of hone with its own",
      .fix = install + " from PyPI, which is the one with CUDA, and hone's wheel beside it"};
}

base::ErrorText explain_linker(const std::string& message, std::int64_t cuda) {
  const std::size_t end = message.find(": cannot open shared object file");
  const std::string install = "pip install 'torch==" + minor_version(TORCH_VERSION) + ".*'";
  if (end == std::string::npos)
    return {.found = "libtorch_cuda.so does not load: " + message,
            .cause = "a library of another version is found first, or a file is damaged",
            .fix = "take other CUDAs out of LD_LIBRARY_PATH; " + install + " brings torch's own again"};
  const std::string library = base::fs::path(message.substr(0, end)).filename().string();
  const std::string package = package_of(library, cuda);
  return {.found = library + " is missing, which libtorch_cuda.so needs",
          .cause = "torch is installed without the packages that it requires",
          .fix = package.empty() ? install + " brings them"
                                 : "pip install " + package + "; " + install + " brings all of them"};
}

CudaObstacle check_folders(const std::vector<std::string>& libraries) {
  const std::vector<Folder> own = folders_of(libraries, kCpuLibrary);
  if (own.empty()) return std::nullopt;
  for (const char* name : {"libc10.so", kCudaLibrary, "libc10_cuda.so"}) {
    for (const Folder& folder : folders_of(libraries, name))
      if (folder.real != own.front().real) return two_torches(own.front(), folder);
  }
  return std::nullopt;
}

}  // namespace hone::ops
