// In the place of the library that records graphs (ops/machine/graph_library.h), for StepGraphs of any device that are made while it
// lives: a graph is the work itself, which is not done when it is recorded.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "ops/machine/graph_library.h"

namespace hone::standin {

enum class Fails { kNever, kByWord, kByException };
constexpr const char* kWhyNotRecorded = "this recording fails";

class FakeGraphs {
 public:
  // The recording before which `at` others were asked for fails as `how` says.
  explicit FakeGraphs(Fails how = Fails::kNever, std::int64_t at = 0) {
    state() = {.how = how, .left = at};
    static const ops::cuda::GraphLibrary library = {.version = ops::cuda::kGraphVersion,
                                                    .make = [] { return static_cast<void*>(new Graph()); },
                                                    .record = record,
                                                    .start = start,
                                                    .drop = drop};
    ops::cuda::set_graph_library(&library);
  }
  ~FakeGraphs() { ops::cuda::set_graph_library(nullptr); }
  FakeGraphs(const FakeGraphs&) = delete;
  FakeGraphs& operator=(const FakeGraphs&) = delete;

  static std::int64_t recorded() { return state().recorded; }
  static std::int64_t started() { return state().started; }
  static std::int64_t alive() { return state().recorded - state().dropped; }

 private:
  struct Graph {
    void (*work)(void*) = nullptr;
    void* user = nullptr;
  };
  struct State {
    Fails how = Fails::kNever;
    std::int64_t left = 0, recorded = 0, started = 0, dropped = 0;
  };
  static State& state() {
    static State one;
    return one;
  }
  static std::string record(void* graph, void (*work)(void*), void* user) {
    if (state().how != Fails::kNever && state().left-- == 0) {
      if (state().how == Fails::kByException) throw std::runtime_error(kWhyNotRecorded);
      return kWhyNotRecorded;
    }
    *static_cast<Graph*>(graph) = {.work = work, .user = user};
    ++state().recorded;
    return "";
  }
  static void start(void* graph) {
    const Graph& one = *static_cast<Graph*>(graph);
    ++state().started;
    one.work(one.user);
  }
  static void drop(void* graph) {
    state().dropped += static_cast<Graph*>(graph)->work == nullptr ? 0 : 1;
    delete static_cast<Graph*>(graph);
  }
};

}  // namespace hone::standin
