// The tools and environments of a run, in Python processes of their own.
//
// One process, the host, imports the user's modules. Forks of it run their functions: up to `workers` for
// standalone tools, one for each environment instance. A fork that hangs, crashes or eats the machine is
// ended with all that it has started, and costs what it was doing and nothing else: the next one is forked in
// milliseconds, without an import. Where an import starts threads, which a fork does not have, each of them
// imports for itself.
//
// A call's result is text, as TRL hands it to the model:
// - str(result); the texts of a list of text blocks, joined. More than `most_characters` are cut in the middle, with a mark.
// - {'error': str(e)} for an exception, and for SystemExit and the like, which end nothing here; {'error': 'Tool X not found.'};
//   {'error': 'timeout after 30 s'}; {'error': 'the tool was killed by SIGSEGV'}: `failed`, and `note` says more than the model is told.
// - Once a fork that holds an environment has been ended, that environment is lost: calls until its next reset are `failed`.
// - async functions: several at once in one fork. A fork that hangs in one of them is ended; the others' calls are made again.
// What tools print is in Done::printed; their stdin is empty. OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are 1, unless they are set.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace hone::tools {

struct Tool {
  std::string name;
  base::Json schema;  // as transformers' get_json_schema makes it
  bool is_async = false;
};

struct PoolOptions {
  std::string python;              // empty: base/process/active_python.h
  int workers = 1;                 // standalone tools that run at once
  double timeout = 30;             // seconds of a call, a reset, a reward
  std::vector<std::string> tools;  // tool_spec.h
  std::map<std::string, std::string>
      environments;  // name ("" where there is one only) -> "file.py:Factory", or a server's address
  std::size_t most_characters = std::size_t{1} << 20;  // of a result; 0: 8 million
  // Instances of an environment that will be there at once; a server that holds fewer is refused. 0: nobody asks.
  std::int64_t sessions = 0;
};

struct Done {
  std::uint64_t ticket = 0;
  std::string text;     // a result, an error's text, or the observation of a reset ("" for None)
  bool failed = false;  // a call: a counted failure; a reset or a reward: the environment did not do it
  double reward = std::numeric_limits<double>::quiet_NaN();  // of reward(); NaN for None
  double seconds = 0;                                        // of the function alone
  std::string
      note;  // what happened, for the log: "search raised KeyError: 'x' (tools.py:12 in search)"; "" where nothing did
  std::string printed;  // what it printed, the first of it; of a fork that runs one call at a time
};

class ToolPool {
 public:
  // Starts the host, imports, calls each factory once (its instance 0). UserError: what parse_tool_word refuses, a module that
  // does not import, no such name, a tool without docstring or with an argument that has no type or no description, two tools of one
  // name, an environment without reset, a factory that raises or does not end.
  explicit ToolPool(PoolOptions options);
  ToolPool(const ToolPool&) = delete;
  ToolPool& operator=(const ToolPool&) = delete;
  ~ToolPool();  // ends all processes

  // Standalone tools first, then the environment's methods by name. "" where there are no environments: the standalone ones.
  const std::vector<Tool>& tools(const std::string& environment) const;
  bool has_reward(const std::string& environment) const;  // a get_reward
  bool takes_seed(
      const std::string& environment) const;  // its reset names a parameter `seed`, and is given one
  std::string class_name(const std::string& environment) const;  // type(factory()).__name__

  // What the user should know: a tool that has the network, since the system does not let it be shut off.
  const std::vector<std::string>& notes() const;

  // All return at once; the ticket's Done comes through wait(). An instance is (environment, number): the k-th row of a name takes
  // instance k, as in TRL's pool; it is made when it is first reset and never ended. What is asked of one instance is done in the order
  // of the asking, async methods side by side.
  //
  // `seed` alone decides what an instance draws from Python's and NumPy's generators after a reset. A reset
  // that names a parameter `seed` gets its low 32 bits, which every library takes, unless the row has a
  // column of that name.
  std::uint64_t reset(const std::string& environment, std::int64_t instance, const base::Json& row,
                      std::uint64_t seed);
  // Of a standalone tool too: then `environment` and `instance` only say who may call it.
  std::uint64_t call(const std::string& environment, std::int64_t instance, const std::string& name,
                     const base::Json& arguments);
  std::uint64_t reward(const std::string& environment, std::int64_t instance);

  // Returns what has finished since the last call; `block`: waits for one at least, if any is under way.
  // UserError: the program that called hone has raised in an environment of its own, which ends the run; or
  // the host has died three times without an answer in between, or again and again: more than ten times, less
  // one for every fifty answers.
  std::vector<Done> wait(bool block);
  std::size_t under_way() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::tools
