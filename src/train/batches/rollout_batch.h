// A generation batch: prompts, their completions, recorded values and rewards. GRPO and RLOO train on it, a
// checkpoint in the middle of one stores it, and `--replay` reads it.
//
// The file format ("hone-rollouts-1") is JSONL, one generation batch per line:
//   {"format": "hone-rollouts-1", "generation": 0, "reward_names": ["accuracy_reward"],
//    "prompts": [{"row": 3, "ids": [..]}, ..],
//    "samples": [{"prompt": 0, "ids": [..], "truncated": false, "rewards": [1.0, null],
//                 "old_logprobs": [..], "sampling_logprobs": [..], "ref_logprobs": [..], "entropies": [..],
//                 "text": ".."}, ..],
//    "slices": [[0, 1], [2, 3]]}
// A batch of dialogues with tools is "hone-rollouts-2". It has "tools": true, and of each sample in addition:
//   "given": [[12, 31], ..]     the ids that the model did not draw: [begin, end) of "ids", in order
//   "messages": [{..}, ..]      the dialogue after the prompt, as reward functions get it
//   "calls": [{"turn": 0, "name": "search", "arguments": {..}, "result": "..", "failed": false, "seconds": 0.01}, ..]
// It is the form too of completions that a function of the user's has made, with "tools": false. Such samples of one row may each have
// a prompt of their own, then with the same "row".
// Samples of a prompt are adjacent (num_generations of each). A reward of null is TRL's None. Of a sample,
// "ids", "truncated" and "rewards" are needed; of the rest what is absent is computed or left out:
// [tokens] below are the drawn ones.
//   old_logprobs      [tokens] of the tempered full softmax when generated; absent: the ratio is exactly 1
//   sampling_logprobs [tokens] of the distribution that was drawn from (importance-sampling correction)
//   ref_logprobs      [tokens] of the reference model; absent: computed where beta needs them
// "slices": the micro-batches that TRL made of the batch (steps_per_generation of them, samples in order);
// absent: micro-batches are composed by group.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::train {

struct RolloutPrompt {
  std::int64_t row = 0;           // of the data file
  std::vector<std::int32_t> ids;  // [P]
  bool operator==(const RolloutPrompt&) const = default;
};

// Tokens [begin, end) of a completion that the model did not draw: what a tool answered, and what the chat template puts
// around it. They are read, and never scored: TRL's tool_mask is 0 there.
struct GivenTokens {
  std::int64_t begin = 0, end = 0;
  bool operator==(const GivenTokens&) const = default;
};

// A call of a tool. Those of a sample are in the order in which the model wrote them.
struct ToolCall {
  std::int64_t turn = 0;  // of the model's turns in the completion
  std::string name;
  base::Json arguments;
  std::string result;  // what the model read
  bool failed = false;
  double seconds = 0;
};

struct RolloutSample {
  std::size_t prompt = 0;         // in RolloutBatch::prompts
  std::vector<std::int32_t> ids;  // [C], the stop token included
  // ended by max_completion_length (a stop string is an end here; TRL counts it as truncated)
  bool truncated = false;
  std::string text;             // without special tokens
  std::vector<double> rewards;  // one a function, NaN for None
  // [drawn()] each, or empty: not known
  std::vector<float> old_logprobs, sampling_logprobs, ref_logprobs, entropies;
  double advantage = 0;  // not in the file: computed from the rewards

  std::vector<GivenTokens> given = {};  // in order, apart from each other
  base::Json messages = {};             // null: the completion is one turn, its text
  std::vector<ToolCall> calls = {};

  std::size_t drawn() const {  // tokens that the model drew
    std::size_t out = ids.size();
    for (const GivenTokens& one : given) out -= static_cast<std::size_t>(one.end - one.begin);
    return out;
  }
};

struct RolloutBatch {
  std::int64_t generation = 0;  // 0-based number of the generation batch in the run
  std::vector<std::string> reward_names;
  std::vector<RolloutPrompt> prompts;
  std::vector<RolloutSample> samples;
  std::vector<std::vector<std::size_t>> slices;  // empty: composed by group
  bool has_tools = false;  // samples are dialogues with tools, though none may be called
};

base::Json to_json(const RolloutBatch& batch);
// UserError naming `where` and the field; token ids are at least 0, rewards finite in fp32.
RolloutBatch rollout_batch_from_json(const base::Json& json, const std::string& where);

// All lines of a file. UserError for a line that does not parse, or is none of these.
std::vector<RolloutBatch> read_rollouts(const base::fs::path& path);

// Appends one line; UserError when the file cannot be written.
void append_rollouts(const base::fs::path& path, const RolloutBatch& batch);

// Prompts of samples that have each their own: those of a group (group_size samples) that are equal and next to each other become one.
void set_prompts(RolloutBatch& batch, std::vector<RolloutPrompt> of_samples, std::int64_t group_size);

// UserError naming `where` unless every group_size samples are of one prompt, or of prompts of one row, and every token is below
// `vocab_size`.
void check_rollouts(const RolloutBatch& batch, std::int64_t group_size, std::int64_t vocab_size,
                    const std::string& where);

}  // namespace hone::train
