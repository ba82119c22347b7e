// These functions add to the opening of a method that samples what a distillation needs.
#pragma once

#include <memory>
#include <vector>

#include "data/forms/given_completions.h"
#include "train/opening/open_run.h"

namespace hone::train {
class RemoteTeacher;  // train/references/remote_teacher.h
}

namespace hone::train::distill {

// The teacher behind a server, whose vocabulary is the model's; null: it is in this process, and its vocabulary is compared too.
// UserError where the model's own base would have to sample.
std::shared_ptr<RemoteTeacher> open_teacher(const OpenedRun& run);

// UserError where the divergence would not see what is trained, or the teacher would not be what its folder holds. After the
// adapter was attached.
void require_plain_head(const OpenedRun& run);

// Some micro-batches have the completions of the data.
bool takes_given(const config::Plan& plan);
// Prompts keep their last max_prompt_length tokens. UserError naming a row that is longer than the
// model's positions.
std::vector<data::GivenCompletion> given_completions(const PolicyPrompts& prompts, const OpenedRun& run);

// Some micro-batches have completions that the teacher samples.
bool teacher_samples(const config::Plan& plan);

// UserError for a recorded sample without the log-probabilities that loss_type sampled needs.
void require_recorded(const config::Plan& plan, const RolloutBatch& batch);

// `source` with the micro-batches that the model does not sample, if there are such. The run must outlive it.
std::unique_ptr<RolloutSource> with_others(const OpenedRun& run, const SampledData& data,
                                           const rollout::GenerateOptions& sampling,
                                           std::unique_ptr<RolloutSource> source);

}  // namespace hone::train::distill
