#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "ops/machine/cuda_search.h"

namespace hone::ops {
namespace {

// Of libcuda.so.1, by hand: NVIDIA's headers are not needed for ten functions. Its results are numbers of CUresult.
constexpr int kNoDevice = 100, kNotReady = 802, kMismatch = 803, kNotCompatible = 804, kStub = 34;
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76, kVirtualMemory = 102;
using Init = int (*)(unsigned);
using Number = int (*)(int*);
using OfDevice = int (*)(int*, int);
using Text = int (*)(int, const char**);
using NameOf = int (*)(char*, int, int);
using MemoryOf = int (*)(std::size_t*, int);
using Attribute = int (*)(int*, int, int);

// The oldest driver of a major version of CUDA.
std::string needed_driver(std::int64_t cuda) {
  if (cuda / 1000 == 13) return "580";
  return cuda / 1000 == 12 ? "525" : "";
}

std::string newer_driver(std::int64_t cuda) {
  const std::string needed = needed_driver(cuda);
  return needed.empty() ? "install a newer NVIDIA driver"
                        : "install NVIDIA's driver " + needed + " or newer, or a torch for an older CUDA";
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...": the word that begins with digits and a
// point.
std::string kernel_module() {
  std::ifstream in("/proc/driver/nvidia/version");
  std::string word;
  for (int i = 0; i < 16 && in >> word; ++i) {
    const bool starts = word.size() > 4 && word.find_first_not_of("0123456789.") == std::string::npos;
    if (starts && word.find('.') != std::string::npos) return word;
  }
  return "";
}

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

CudaCard card(void* library, int number) {
  CudaCard out;
  int device = number, major = 0, minor = 0;
  if (const auto get = symbol<OfDevice>(library, "cuDeviceGet"); get != nullptr && get(&device, number) != 0)
    return out;
  std::array<char, 256> text{};
  if (const auto name = symbol<NameOf>(library, "cuDeviceGetName");
      name != nullptr && name(text.data(), static_cast<int>(text.size()) - 1, device) == 0)
    out.name = text.data();
  std::size_t bytes = 0;
  if (const auto memory = symbol<MemoryOf>(library, "cuDeviceTotalMem_v2");
      memory != nullptr && memory(&bytes, device) == 0)
    out.memory = static_cast<std::int64_t>(bytes);
  const auto ask = symbol<Attribute>(library, "cuDeviceGetAttribute");
  if (ask == nullptr) return out;
  if (ask(&major, kCapabilityMajor, device) == 0 && ask(&minor, kCapabilityMinor, device) == 0)
    out.capability = 10LL * major + minor;
  int maps = 0;
  out.maps_pages = ask(&maps, kVirtualMemory, device) == 0 && maps != 0;
  return out;
}

// The driver itself reads this variable; an empty one hides every card.
base::ErrorText no_card() {
  const char* const seen =
      std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (seen != nullptr) {
    const std::string value(seen);
    return {
        .found = value.empty() ? "the driver shows no GPU: CUDA_VISIBLE_DEVICES is empty"
                               : "the driver shows no GPU: CUDA_VISIBLE_DEVICES is '" + value + "'",
        .cause = "that variable says which GPUs a process may use, and none of this machine is among them",
        .fix = "unset CUDA_VISIBLE_DEVICES, or name a card that `nvidia-smi -L` lists"};
  }
  return {.found = "the driver shows no GPU",
          .cause = "there is no card, a container was started without it, or MIG is on without an instance",
          .fix = "look at `nvidia-smi -L`; start a container with --gpus all"};
}

// Why cuInit failed.
base::ErrorText no_start(void* library, int code) {
  if (code == kNoDevice) return no_card();
  std::string said = "error " + std::to_string(code);
  const char* text = nullptr;
  if (const auto name = symbol<Text>(library, "cuGetErrorString");
      name != nullptr && name(code, &text) == 0 && text != nullptr)
    said += ", " + std::string(text);
  base::ErrorText out{.found = "NVIDIA's driver does not start: " + said, .fix = "look at `nvidia-smi`"};
  if (code == kMismatch) {
    out.cause = "the driver's library is of another version than its kernel module";
    out.fix = "restart the machine after an update of the driver; in a container, start it again";
  } else if (code == kNotReady) {
    out.cause = "the cards of this machine are joined by NVSwitch, whose service does not run";
    out.fix = "start nvidia-fabricmanager";
  } else if (code == kNotCompatible) {
    out.cause = "a package of CUDA's forward compatibility is loaded, which this card does not take";
    out.fix = "remove cuda-compat from LD_LIBRARY_PATH";
  } else if (code == kStub) {
    out.cause = "libcuda.so.1 is the stub that programs are linked with";
    out.fix = "remove the folder `stubs` from LD_LIBRARY_PATH";
  } else {
    out.cause = "the driver is damaged, or the card has fallen off the bus";
  }
  return out;
}

}  // namespace

std::string cuda_version(std::int64_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

CudaObstacle ask_driver(CudaDriver& driver, std::int64_t cuda) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string said = dlerror();
    if (said.find("cannot open shared object file") == std::string::npos)
      return base::ErrorText{.found = "NVIDIA's driver does not load: " + said,
                             .cause = "its library is damaged",
                             .fix = newer_driver(cuda)};
    return base::ErrorText{
        .found = "there is no NVIDIA driver: libcuda.so.1 is not found",
        .cause = "this machine has no NVIDIA GPU, or this container was started without it",
        .fix = newer_driver(cuda) + "; start a container with --gpus all"};
  }
  driver.version = kernel_module();
  int served = 0, count = 0;
  if (const auto version = symbol<Number>(library, "cuDriverGetVersion"); version != nullptr)
    version(&served);
  driver.cuda = served;
  if (served / 1000 < cuda / 1000) {
    const std::string name = driver.version.empty() ? "NVIDIA's driver" : "NVIDIA's driver " + driver.version;
    return base::ErrorText{.found = name + " is for CUDA " + cuda_version(served) +
                                    ", and this torch is for CUDA " + cuda_version(cuda),
                           .cause = "the driver is too old",
                           .fix = newer_driver(cuda)};
  }
  const auto init = symbol<Init>(library, "cuInit");
  const auto counted = symbol<Number>(library, "cuDeviceGetCount");
  if (init == nullptr || counted == nullptr)
    return base::ErrorText{.found = "libcuda.so.1 lacks cuInit or cuDeviceGetCount",
                           .cause = "it is not NVIDIA's driver",
                           .fix = newer_driver(cuda)};
  if (const int code = init(0); code != 0) return no_start(library, code);
  if (const int code = counted(&count); code != 0) return no_start(library, code);
  if (count == 0) return no_card();
  for (int i = 0; i < count; ++i) driver.cards.push_back(card(library, i));
  return std::nullopt;
}

}  // namespace hone::ops
