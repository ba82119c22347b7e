// The card of this process: libtorch's CUDA library, and what the paper GPU below it wrote down.
#pragma once

#include <c10/core/Device.h>
#include <dlfcn.h>

#include <nlohmann/json.hpp>
#include <string>

#include "paper/runtime/counts.h"

namespace hone::paper {

using Json = nlohmann::ordered_json;

// Opens cuda:0 as a run of hone's does; to be called before the first at:: call. Throws std::runtime_error when this process was
// not started under the paper GPU (tests/paper/on_paper.py), and what ops::open_device throws.
at::Device open_card();

PaperCounts counts();
void reset();
// The library paper_captures (captures.h).
struct Captures {
  void* library = nullptr;
  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
};
Captures open_captures(const std::string& path);

// follow() writes down what happens from now on, in its order, and followed() returns what happened since
// (runtime/counts.h has the letters).
void follow();
std::string followed();

// launches, library_calls, waits, copies, allocations ... as they stand.
Json json_of(const PaperCounts& counts);
// Kernels by their readable name without template arguments, and how often each was launched, the most first.
Json names_launched();
// Bytes of libtorch's caching allocator: {"allocated_peak", "reserved_peak", "reserved"}.
Json allocator_peaks();

}  // namespace hone::paper
