#include "ops/machine/step_graphs.h"

#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "ops/machine/graph_library.h"

namespace hone::ops {
namespace {

using cuda::GraphLibrary;

struct LoadedGraphs {
  const GraphLibrary* table = nullptr;
  std::string why_not;
};

// Beside the library or program that holds this function.
LoadedGraphs load_graphs() {
  Dl_info found{};
  std::string path = "libhone_graphs.so";
  if (dladdr(reinterpret_cast<const void*>(&load_graphs), &found) != 0 && found.dli_fname != nullptr) {
    const std::string file = found.dli_fname;
    path = file.substr(0, file.rfind('/') + 1) + path;
  }
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const said = dlerror();
    return {.why_not = said == nullptr ? path + " is not there" : said};
  }
  const auto entry = reinterpret_cast<cuda::GraphEntry>(dlsym(library, cuda::kGraphEntry));
  const GraphLibrary* const table = entry == nullptr ? nullptr : entry();
  if (table == nullptr || table->version != cuda::kGraphVersion)
    return {.why_not = path + " is of another version of hone"};
  return {.table = table};
}

const LoadedGraphs& graph_library() {
  static const LoadedGraphs loaded = load_graphs();
  return loaded;
}

std::atomic<const GraphLibrary*> set{nullptr};
std::atomic<std::int64_t> recorded{0}, started{0};

struct FirstReason {
  std::mutex mutex;
  std::string text;
};
FirstReason& first_reason() {
  static FirstReason& one = *new FirstReason;
  return one;
}

}  // namespace

std::string cuda::graph_library_missing() {
  return graph_library().why_not;
}

void cuda::set_graph_library(const GraphLibrary* library) {
  set.store(library, std::memory_order_release);
}

StepGraphFacts step_graph_facts() {
  return {.recorded = recorded.load(), .started = started.load()};
}

void tell_no_step_graph(const std::string& why) {
  const std::lock_guard lock(first_reason().mutex);
  if (first_reason().text.empty()) first_reason().text = why;
}

std::string step_graphs_note() {
  const std::lock_guard lock(first_reason().mutex);
  if (first_reason().text.empty()) return "";
  return "HONE_STEP_GRAPHS is on, and the sampler has done steps without graphs: " + first_reason().text;
}

class StepGraphs::Graph {
 public:
  explicit Graph(const GraphLibrary& library) : library_(library), graph_(library.make()) {}
  ~Graph() { library_.drop(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string record(std::function<void()>& work) {
    const auto call = [](void* user) { (*static_cast<std::function<void()>*>(user))(); };
    return library_.record(graph_, call, &work);
  }
  void start() const { library_.start(graph_); }

 private:
  const GraphLibrary& library_;
  void* const graph_;
};

StepGraphs::StepGraphs(at::Device device, std::size_t most)
    : device_(device), most_(most), library_(set.load(std::memory_order_acquire)) {
  if (library_ != nullptr || !device.is_cuda()) return;
  library_ = graph_library().table;
  why_not_ = graph_library().why_not;
  if (!why_not_.empty()) tell_no_step_graph(why_not_);
}

StepGraphs::~StepGraphs() = default;

void StepGraphs::clear() {
  kept_.clear();
  once_.clear();
}

// Empty: it was recorded, or nothing records here.
std::string StepGraphs::record(Kept& one) const {
  if (library_ == nullptr) return "";
  auto graph = std::make_unique<Graph>(*library_);
  std::string why;
  try {
    why = graph->record(one.work);
  } catch (const std::exception& error) {
    // It may be that only the recording forbids it. The work is done next, and throws again what is wrong with it.
    why = *error.what() != 0 ? error.what() : "the step cannot be recorded";
  }
  if (!why.empty()) return why;
  one.graph = std::move(graph);
  ++recorded;
  return "";
}

void StepGraphs::start(Kept& one) const {
  if (one.graph == nullptr) return one.work();
  one.graph->start();
  ++started;
}

void StepGraphs::run(const std::vector<std::int64_t>& form, const std::function<void()>& work) {
  if (!why_not_.empty()) return work();
  const c10::DeviceGuard guard(device_);  // a thread has its own current card
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.form == form; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return start(kept_.front());
  }
  const auto before = std::find(once_.begin(), once_.end(), form);
  if (before == once_.end()) {
    work();
    once_.push_front(form);
    if (once_.size() > kFormsOnce) once_.pop_back();
    return;
  }
  once_.erase(before);
  kept_.push_front({.form = form, .work = work, .graph = nullptr});
  why_not_ = record(kept_.front());
  if (!why_not_.empty()) {
    tell_no_step_graph(why_not_);
    clear();
    return work();
  }
  if (kept_.size() > most_) kept_.pop_back();
  start(kept_.front());
}

}  // namespace hone::ops
