#include "paper/drive/card.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/machine/cuda.h"

namespace hone::paper {
namespace {

// A function of the preloaded runtime.
template <class Function>
Function* paper_function(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr)
    throw std::runtime_error("not under the paper GPU: start this by tests/paper/on_paper.py");
  return reinterpret_cast<Function*>(found);
}

std::string readable(const char* mangled) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &failed),
                                                    std::free);
  return failed == 0 ? name.get() : mangled;
}

// Parameters and what a template is made of take most of a name; functors inside tell elementwise kernels apart.
std::string short_name(const char* mangled) {
  std::string name = readable(mangled);
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const std::string_view part : {"at::native::", "(anonymous namespace)::", "c10::", "at::"}) {
    for (std::size_t at = 0; (at = name.find(part, at)) != std::string::npos;) name.erase(at, part.size());
  }
  constexpr std::size_t kLongest = 150;
  if (name.size() > kLongest) name.resize(kLongest);
  return name;
}

}  // namespace

at::Device open_card() {
  paper_function<void()>("paper_reset");
  return ops::open_device("cuda:0", "paper_drive");
}

PaperCounts counts() {
  PaperCounts out;
  paper_function<void(PaperCounts*)>("paper_counts")(&out);
  return out;
}

void reset() {
  paper_function<void()>("paper_reset")();
}

Captures open_captures(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_LAZY);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return {library};
}

void follow() {
  paper_function<void()>("paper_follow")();
}

std::string followed() {
  return paper_function<const char*()>("paper_followed")();
}

Json json_of(const PaperCounts& of) {
  return {{"launches", of.launches},
          {"library_calls", of.library_calls},
          {"memsets", of.memsets},
          {"waits", of.waits},
          {"to_device", of.to_device},
          {"to_host", of.to_host},
          {"on_device", of.on_device},
          {"pageable", of.pageable},
          {"bytes_to_device", of.bytes_to_device},
          {"bytes_to_host", of.bytes_to_host},
          {"allocations", of.allocations},
          {"frees", of.frees},
          {"pinned_allocations", of.pinned_allocations},
          {"bytes", of.bytes},
          {"peak", of.peak},
          {"captures", of.captures},
          {"graph_launches", of.graph_launches},
          {"refused_in_capture", of.refused_in_capture}};
}

Json names_launched() {
  std::map<std::string, std::int64_t> by_name;
  using Each = void (*)(const char*, std::int64_t, void*);
  const Each add = [](const char* name, std::int64_t count, void* user) {
    (*static_cast<std::map<std::string, std::int64_t>*>(user))[short_name(name)] += count;
  };
  paper_function<void(Each, void*)>("paper_names")(add, &by_name);
  std::vector<std::pair<std::string, std::int64_t>> sorted(by_name.begin(), by_name.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Json out = Json::object();
  for (const auto& [name, count] : sorted) out[name] = count;
  return out;
}

Json allocator_peaks() {
  const auto stats = c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(0);
  return {{"allocated_peak", stats.allocated_bytes[0].peak},
          {"reserved_peak", stats.reserved_bytes[0].peak},
          {"reserved", stats.reserved_bytes[0].current}};
}

}  // namespace hone::paper
