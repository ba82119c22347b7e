// The paper GPU's runtime wrote these down. A program under the preload finds these functions by
// dlsym(RTLD_DEFAULT, ...); one that is not under it finds none of them. All count since the process began or
// since paper_reset().
#pragma once

#include <cstdint>

extern "C" {

struct PaperCounts {
  std::int64_t launches = 0;       // kernels and library_calls
  std::int64_t library_calls = 0;  // calls of cuBLAS and its like that run kernels of their own
  std::int64_t memsets = 0;        // beside the launches
  std::int64_t waits =
      0;  // the host waited for the card, or would have, but for late ones; see copies.cpp for copies
  // Of the same, those for an event behind which the card has other kernels to run: it does not stand still meanwhile.
  std::int64_t late_waits = 0;
  std::int64_t to_device = 0, to_host = 0, on_device = 0;  // copies
  std::int64_t pageable =
      0;  // of those between host and card, those of memory that is not pinned: each waits
  std::int64_t bytes_to_device = 0, bytes_to_host = 0;
  std::int64_t allocations = 0, frees = 0;        // of the card's memory
  std::int64_t pinned_allocations = 0;            // of the host's pinned memory
  std::int64_t bytes = 0, peak = 0;               // of the card's memory, now and at most
  std::int64_t captures = 0, graph_launches = 0;  // graphs that were recorded and started
  std::int64_t kernels_of_graphs = 0;             // what the started graphs held
  std::int64_t refused_in_capture = 0;            // waits and allocations; each failed, as on a card
  // Launches without library_calls, and starts of graphs, while the current card of the thread was not the first one.
  std::int64_t on_other_cards = 0;
};

void paper_counts(PaperCounts* out);
// Everything but `bytes` begins at 0, `peak` at `bytes`.
void paper_reset();
// Calls `each` for every kernel and library function that was launched, in no order; `name` as the compiler mangled it.
void paper_names(void (*each)(const char* name, std::int64_t count, void* user), void* user);

// What happens from now on is written down in its order, a letter each, until the next call. k: a kernel, or a call of a library that
// runs some; m: a memset. Copies: i to the card, o to the host, I and O the same of memory that is not pinned, c on the card. w: a
// wait besides those of I and O; l: a late one. a: an allocation of the card's memory; p: of pinned memory.
void paper_follow();
const char* paper_followed();
// Of the stub libraries (stubs.py): such a function was called.
void paper_library_call(const char* name);
// Of libcuda.so.1: takes so many bytes of the card, without an address, and gives them back; false: there are not so many left. Then
// such bytes at an address, and none there any more.
bool paper_take(std::int64_t bytes);
void paper_give(std::int64_t bytes);
void paper_map(const void* at, std::int64_t bytes);
void paper_unmap(const void* at, std::int64_t bytes);
// As PAPER_DRIVER, PAPER_DEVICES and PAPER_MEMORY_GB say: the driver's version, 13000 for 13.0; the number of cards; the bytes of one.
int paper_driver_version();
int paper_devices();
std::int64_t paper_total_bytes();

}  // extern "C"
