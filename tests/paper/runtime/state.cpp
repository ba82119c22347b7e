#include "state.h"

#include <cstdlib>
#include <string>

namespace paper {
namespace {

std::int64_t number_of(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

}  // namespace

// Never destroyed: libtorch's statics free memory after it.
std::mutex& lock() {
  static auto* const one = new std::mutex;
  return *one;
}

State& state() {
  static auto* const one = new State;
  return *one;
}

void happened(char what) {
  if (state().follows) state().order += what;
}

std::map<const char*, std::size_t>::const_iterator Ranges::find(const void* at) const {
  const auto* const byte = static_cast<const char*>(at);
  auto found = sizes.upper_bound(byte);
  if (found == sizes.begin()) return sizes.end();
  --found;
  return byte < found->first + found->second ? found : sizes.end();
}

void Ranges::join(const char* at, std::size_t bytes) {
  auto next = sizes.lower_bound(at);
  if (next != sizes.end() && at + bytes == next->first) {
    bytes += next->second;
    next = sizes.erase(next);
  }
  if (next != sizes.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  sizes[at] = bytes;
}

void Ranges::cut(const char* at, std::size_t bytes) {
  const auto found = find(at);
  if (found == sizes.end()) return;
  const auto [begin, whole] = *found;
  sizes.erase(begin);
  if (begin < at) sizes[begin] = static_cast<std::size_t>(at - begin);
  if (begin + whole > at + bytes) sizes[at + bytes] = static_cast<std::size_t>(begin + whole - (at + bytes));
}

}  // namespace paper

using paper::Guard;
using paper::lock;
using paper::state;

int paper_driver_version() {
  static const auto version = static_cast<int>(paper::number_of("PAPER_DRIVER", 13000));
  return version;
}

int paper_devices() {
  static const auto count = static_cast<int>(paper::number_of("PAPER_DEVICES", 1));
  return count;
}

std::int64_t paper_total_bytes() {
  static const std::int64_t bytes = paper::number_of("PAPER_MEMORY_GB", 80) * (std::int64_t{1} << 30);
  return bytes;
}

void paper_counts(PaperCounts* out) {
  const Guard guard(lock());
  *out = state().counts;
}

void paper_reset() {
  const Guard guard(lock());
  const std::int64_t bytes = state().counts.bytes;
  state().counts = {};
  state().counts.bytes = state().counts.peak = bytes;
  state().launched.clear();
  state().library_called.clear();
}

void paper_follow() {
  const Guard guard(lock());
  state().follows = true;
  state().order.clear();
}

const char* paper_followed() {
  const Guard guard(lock());
  state().follows = false;
  return state().order.c_str();
}

void paper_names(void (*each)(const char*, std::int64_t, void*), void* user) {
  const Guard guard(lock());
  for (const auto& [kernel, count] : state().launched) {
    const auto name = state().kernels.find(kernel);
    each(name == state().kernels.end() ? "(a kernel that was not registered)" : name->second, count, user);
  }
  for (const auto& [name, count] : state().library_called) each(name, count, user);
}
