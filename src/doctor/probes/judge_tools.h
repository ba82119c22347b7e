// Verdicts of what a run's tools do, and of the room that a dialogue with them has.
#pragma once

#include "doctor/examination.h"
#include "doctor/probes/tool_trials.h"

namespace hone::doctor {

// TOOL-01, TOOL-02, TOOL-03 of results, TOOL-04, TOOL-10.
Verdicts judge_trials(const train::RunView& run, const ToolTrials& trials);

// TOOL-03: the prompt, a call, an empty result and an answer against max_completion_length and the model's positions.
base::Verdict judge_room(const train::RunView& run);

// TOOL-05: the run's rewards on dialogues whose only right answer is a tool's.
Verdicts judge_dialogue_rewards(const train::RunView& run, double patience);

}  // namespace hone::doctor
