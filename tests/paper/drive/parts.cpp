// The paper GPU itself: each count counts what it says, and the card's memory is closed.
#include <ATen/ATen.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "ops/machine/device_memory.h"
#include "paper/drive/captures.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"

namespace hone::paper {
namespace {

const at::TensorOptions kCard = at::TensorOptions(at::kFloat).device(at::kCUDA);

// What `work` cost.
PaperCounts counted(const std::function<void()>& work) {
  reset();
  work();
  return counts();
}

bool a_product_is_one_call() {
  const at::Tensor x = at::ones({64, 32}, kCard.dtype(at::kBFloat16)),
                   y = at::ones({32, 16}, kCard.dtype(at::kBFloat16));
  at::mm(x, y);
  const PaperCounts found = counted([&] { at::mm(x, y); });
  return found.launches == 1 && found.library_calls == 1 && found.waits == 0;
}

bool an_addition_is_one_kernel() {
  const at::Tensor x = at::ones({1000}, kCard);
  const PaperCounts found = counted([&] { x.add(1); });
  const Json names = names_launched();
  return found.launches == 1 && found.library_calls == 0 && names.size() == 1 &&
         names.begin().key().find("elementwise_kernel") != std::string::npos;
}

bool what_went_in_comes_out() {
  const at::Tensor x = at::arange(1000, at::kFloat);
  const at::Tensor card = x.to(at::kCUDA);
  return at::equal(card.cpu(), x) && at::equal(card.narrow(0, 500, 3).cpu(), x.narrow(0, 500, 3));
}

bool pageable_copies_wait() {
  const at::Tensor x = at::ones({1000});
  const PaperCounts blocking = counted([&] { x.to(at::kCUDA); });
  const PaperCounts not_blocking = counted([&] { x.to(at::kCUDA, at::kFloat, /*non_blocking=*/true); });
  return blocking.waits == 1 && blocking.pageable == 1 && not_blocking.waits == 1 &&
         not_blocking.to_device == 1;
}

bool pinned_copies_do_not() {
  const at::Tensor x = at::ones({1000}).pin_memory();
  const PaperCounts found = counted([&] { x.to(at::kCUDA, at::kFloat, /*non_blocking=*/true); });
  const PaperCounts blocking = counted([&] { x.to(at::kCUDA); });
  return found.to_device == 1 && found.pageable == 0 && found.waits == 0 && blocking.waits == 1;
}

bool a_number_read_back_waits_once() {
  const at::Tensor x = at::ones({1}, kCard);
  const PaperCounts found = counted([&] { x.item<float>(); });
  return found.to_host == 1 && found.waits == 1;
}

// In a child, which ends by it.
bool ends_by_a_signal(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(SIGSEGV, SIG_DFL);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

bool the_cards_memory_is_closed() {
  const at::Tensor x = at::arange(10, at::kFloat).to(at::kCUDA);
  x.cpu();  // opened and closed again
  auto* const values = static_cast<volatile float*>(x.mutable_data_ptr());
  return ends_by_a_signal([&] { (void)*values; }) && ends_by_a_signal([&] { *values = 1; });
}

bool more_than_there_is_is_refused() {
  try {
    at::empty({std::int64_t{200} << 30}, kCard.dtype(at::kByte));
    return false;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  }
}

bool cached_memory_is_not_asked_for_again() {
  const auto large = [] { at::empty({50 << 20}, kCard.dtype(at::kByte)); };
  const PaperCounts first = counted(large), second = counted(large);
  return first.allocations > 0 && second.allocations == 0 && second.bytes == first.bytes;
}

// By pages (ops/machine/device_memory.h): a tensor takes the places of two that lay side by side. As large as no other here, so that
// both are new.
bool free_pages_join() {
  const auto block = [](std::int64_t bytes) { return at::empty({bytes}, kCard.dtype(at::kByte)); };
  std::optional<at::Tensor> one = block(400 << 20), other = block(400 << 20);
  const bool beside = static_cast<char*>(one->data_ptr()) + (400 << 20) == other->data_ptr();
  one.reset();
  other.reset();
  at::Tensor both;
  const PaperCounts found = counted([&] { both = block(800 << 20); });
  both.fill_(1);  // across pages
  return beside && found.allocations == 0 && both.narrow(0, 0, 10).cpu().numel() == 10;
}

bool empty_pages_go_back() {
  at::empty({400 << 20}, kCard.dtype(at::kByte));
  const PaperCounts found = counted([] { ops::release_device_memory(at::Device(at::kCUDA, 0)); });
  return found.frees > 0 && found.bytes < (400 << 20);
}

bool a_graph_is_its_kernels(const Captures& captures) {
  bool good = true;
  const PaperCounts found =
      counted([&] { good = captures.find<decltype(paper_capture)>("paper_capture")(10) == 0; });
  return good && found.captures == 1 && found.graph_launches == 10 && found.kernels_of_graphs == 10 * 3 &&
         found.refused_in_capture == 0;
}

bool is_refused(const Captures& captures, const char* name) {
  bool good = true;
  const PaperCounts found = counted([&] { good = captures.find<int()>(name)() == 0; });
  return good && found.refused_in_capture >= 1;
}

}  // namespace

int test_parts(const std::vector<std::string>& words) {
  base::require(words.size() == 1, "paper_drive parts", "the library paper_captures");
  const Captures captures = open_captures(words[0]);
  bool all = true;
  const auto check = [&](const char* name, bool good) {
    std::cout << (good ? "ok" : "not ok") << " " << name << std::endl;
    all = all && good;
  };
  check("a product is one call of a library", a_product_is_one_call());
  check("an addition is one kernel", an_addition_is_one_kernel());
  check("what went in comes out", what_went_in_comes_out());
  check("copies of pageable memory wait once", pageable_copies_wait());
  check("copies of pinned memory wait only when they block", pinned_copies_do_not());
  check("a number read back waits once", a_number_read_back_waits_once());
  check("the host can neither read nor write the card's memory", the_cards_memory_is_closed());
  check("more memory than the card has is refused", more_than_there_is_is_refused());
  check("memory in the cache is not asked for again", cached_memory_is_not_asked_for_again());
  check("free pages side by side are one place", free_pages_join());
  check("pages without tensors are given back", empty_pages_go_back());
  check("a graph is the kernels that it captured", a_graph_is_its_kernels(captures));
  check("a wait in a capture is refused", is_refused(captures, "paper_capture_with_a_wait"));
  check("an allocation in a capture is refused", is_refused(captures, "paper_capture_with_an_allocation"));
  return all ? 0 : 1;
}

}  // namespace hone::paper
