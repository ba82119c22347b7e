#include "ops/machine/cuda.h"

#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "base/files/file.h"
#include "ops/machine/cuda_search.h"

namespace hone::ops {
namespace {

constexpr const char* kCuda = "cuda";

// As fp32 says, and as the CPU does.
void forbid_reduced_sums() {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowFP16AccumulationCuBLAS(false);
}

// Temporary tensors leave holes between blocks, which kept ones fill in part; what is free between pages joins up. Of an 8B model's
// run the blocks took 16 % more than their tensors, and the pages 0.1 % (docs/cuda.md).
void take_memory_by_pages(const CudaDriver& driver) {
  if (!allocator_variable().empty()) return;
  if (std::all_of(driver.cards.begin(), driver.cards.end(),
                  [](const CudaCard& one) { return one.maps_pages; }))
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
}

// What libtorch says in its first line; more would be places in its sources.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

CudaObstacle start(CudaState& state) {
  if (!at::hasCUDA())
    return base::ErrorText{.found = "libtorch does not see its libtorch_cuda.so",
                           .cause = "this process had asked libtorch about CUDA before it was loaded",
                           .fix = "please report this with your command and the file of `hone bug-report`"};
  try {
    take_memory_by_pages(state.driver);
    at::globalContext().lazyInitDevice(at::kCUDA);  // before any statistic of its allocator
    forbid_reduced_sums();
    const std::size_t seen =
        static_cast<unsigned char>(c10::impl::getDeviceGuardImpl(at::kCUDA)->deviceCount());
    if (seen < state.driver.cards.size()) state.driver.cards.resize(seen);
  } catch (const std::exception& error) {
    return base::ErrorText{
        .found = "libtorch does not start CUDA: " + first_line(error),
        .cause = "the driver, the card or the CUDA libraries of " + state.library,
        .fix = "look at `nvidia-smi`; python -c 'import torch; torch.zeros(1).cuda()' says more"};
  }
  return std::nullopt;
}

CudaObstacle load(CudaState& state) {
  if (CudaObstacle found = find_libtorch_cuda(state, loaded_libraries())) return found;
  if (CudaObstacle found = ask_driver(state.driver, state.cuda)) return found;
  // Lazy: of its thousands of symbols a run needs few. Global: libtorch looks for some of them by name.
  if (dlopen(state.library.c_str(), RTLD_LAZY | RTLD_GLOBAL) == nullptr)
    return explain_linker(dlerror(), state.cuda);
  if (CudaObstacle found = check_folders(loaded_libraries())) return found;
  return start(state);
}

CudaState load_once() {
  CudaState state;
  CudaObstacle obstacle = load(state);
  state.loaded = !obstacle;
  if (obstacle) state.obstacle = std::move(*obstacle);
  return state;
}

at::Device open_card(const std::string& name, const std::string& where) {
  const CudaState& state = load_cuda();
  if (!state.loaded) {
    const base::ErrorText& why = state.obstacle;
    throw base::UserError({.where = where,
                           .expected = "a GPU for device: " + name,
                           .found = why.found,
                           .cause = why.cause,
                           .fix = why.fix + "; or train on the CPU, with device: cpu"});
  }
  const auto cards = static_cast<std::int64_t>(state.driver.cards.size());
  const std::string_view number = std::string_view(name).substr(std::string_view(kCuda).size());
  std::int64_t index = 0;
  if (!number.empty()) {
    const auto [end, error] = std::from_chars(number.data() + 1, number.data() + number.size(), index);
    const bool whole = number[0] == ':' && error == std::errc() && end == number.data() + number.size();
    base::require(whole, "ops::open_device", "cpu, cuda, cuda:N or auto");
  }
  if (index < 0 || index >= cards)
    throw base::UserError(
        {.where = where,
         .expected = cards == 1 ? "cuda:0, the only GPU here" : "cuda:0 to cuda:" + std::to_string(cards - 1),
         .found = name,
         .cause = "GPUs are counted from 0, and only those that CUDA_VISIBLE_DEVICES shows",
         .fix = "`hone env` lists them"});
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(index));
  c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(device);
  return device;
}

}  // namespace

const CudaState& load_cuda() {
  static const CudaState state = load_once();
  return state;
}

std::string allocator_variable() {
  for (const char* const name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
    if (std::getenv(name) != nullptr) return name;  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return "";
}

bool own_kernels_wanted() {
  const char* const said = std::getenv("HONE_OWN_KERNELS");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return said == nullptr || std::string_view(said) != "off";
}

bool step_graphs_wanted() {
  const char* const said = std::getenv("HONE_STEP_GRAPHS");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return said != nullptr && std::string_view(said) == "on";
}

std::string CudaState::why_not() const {
  if (loaded) return "";
  std::string out = obstacle.found;
  if (!obstacle.cause.empty()) out += " (" + obstacle.cause + ")";
  return obstacle.fix.empty() ? out : out + "; " + obstacle.fix;
}

at::Device open_device(const std::string& name, const std::string& where) {
  if (name == "auto") return load_cuda().loaded ? open_card("cuda:0", where) : at::Device(at::kCPU);
  return name.starts_with(kCuda) ? open_card(name, where) : at::Device(name);
}

std::string describe(const CudaDriver& driver, std::int64_t index) {
  const CudaCard& card = driver.cards.at(static_cast<std::size_t>(index));
  const std::string name = card.name.empty() ? "a GPU without a name" : card.name;
  return card.memory > 0 ? name + ", " + base::gigabytes(card.memory) : name;
}

std::string versions(const CudaState& state) {
  const auto of = [](const std::string& who, const std::string& version, std::int64_t cuda) {
    return who + (version.empty() ? "" : " " + version) + (cuda > 0 ? " for CUDA " + cuda_version(cuda) : "");
  };
  return of("driver", state.driver.version, state.driver.cuda) + ", " + of("torch", state.torch, state.cuda);
}

}  // namespace hone::ops
