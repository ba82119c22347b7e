// Every threshold of the watch in one place, with its source. "ours": chosen so that the healthy runs of
// tests/faults, the quickstart and GSM8K on a 135M model, whose reward begins at 0, give no failure.
#pragma once

#include <cstdint>

namespace hone::doctor::limits {

// ---- how much must have been seen before anything is said of rollouts: generation batches, and completions
// in them
constexpr std::int64_t kBatchesToSpeak = 3;   // ours
constexpr std::int64_t kSamplesToWarn = 64;   // ours; RL-04: no spread in so many
constexpr std::int64_t kSamplesToFail = 128;  // ours: a solve rate of 2.3 % shows a success with 95 %
constexpr std::int64_t kSamplesOfFirst = 8;   // ours: of the first batch, for what is obvious at once
constexpr std::int64_t kBatchesInWindow = 8;  // ours

// ---- RL-02, RL-03
// axolotl's training_stability guide: healthy below 0.8, always 1.0 is red
constexpr double kDeadShareWarn = 0.8;
constexpr double kCutWarn = 0.3, kCutFail = 0.8;  // the same guide: healthy below 0.3, above 0.8 red
constexpr double kUsefulWhenCut = 0.2;  // ours: with so many live groups a run learns to end in time

// ---- TOOL-03, TOOL-06 to TOOL-11
constexpr std::int64_t kCallsToJudge = 32;     // ours: of one tool
constexpr double kToolFailures = 0.5;          // ours: above it a tool is broken, or not understood
constexpr std::int64_t kSameFailingCalls = 3;  // ours: one completion, the same arguments
constexpr double kToolShare = 0.1;             // ours: of completions
constexpr double kToolWaiting = 0.5;           // ours: share of the sampling time
constexpr double kSecondsOfWaiting = 5;        // ours: of a window; less is no matter

// ---- RL-07
constexpr double kComponentShare = 0.90;  // rewardspy: alert above 0.90 of the total
constexpr double kCeilingRate = 0.80;     // rewardspy: ceiling rate above 0.80
constexpr double kSpreadLost = 0.05;      // rewardspy: recent over baseline spread below 0.05

constexpr double kSaturatedNear = 0.02;  // rlprobe: within 2 % of its ceiling
constexpr double kSaturatedShare = 0.3;  // rlprobe: for 30 % of the run
constexpr double kSolvedShare = 0.8;     // ours: a reward that stands so high is learned
constexpr std::int64_t kSaturatedFrom = 12, kSaturatedMost = 200;  // ours: generation batches

// ---- RL-08
constexpr double kEntropyCollapse = 0.01;     // axolotl: 0.05 to 0.5 healthy, below 0.01 collapse
constexpr double kEntropyOfGuessing = 0.7;    // ours: of ln V; trained models stay below 0.4 of it
constexpr double kKlDiverged = 2.0;           // axolotl: above 2 diverged
constexpr std::int64_t kStepsOfCollapse = 3;  // ours: one batch may be odd
constexpr double kOneToken = 0.5;             // ours: one token is more than half of a completion
constexpr std::int64_t kRepeatsFrom = 16;     // ours: tokens; shorter answers may well be one token twice
constexpr double kRepeatsWarn = 0.1, kRepeatsFail = 0.5;  // ours: share of completions

// ---- RL-19
constexpr double kDepthShare = 0.45;         // rlprobe: one of eight parts has more than 45 % of the KL
constexpr double kDepthKl = 0.05;            // rlprobe: nats a token; of less the share says nothing
constexpr double kDepthNone = 0.02;          // ours: of the KL; parts with less are the same text
constexpr std::int64_t kDepthTokens = 64;    // ours: of a generation batch
constexpr std::int64_t kBatchesOfDepth = 5;  // ours: in a row, the same part

// ---- RL-10: |sampler's - trainer's| log-probability, the largest of a step
constexpr double kGapFp32 = 1e-4;  // the promise sampler = trainer (docs/design.md)
constexpr double kGapBf16 = 1e-3;  // the same; where the kernels promise bits it is 0
// axolotl: mean below 0.1 healthy; libtorch's bf16 products promise no bits
constexpr double kGapBf16Elsewhere = 0.1;
constexpr double kGapFailFactor = 100;  // ours
// Limits a step's mean where sampler and trainer have different kernels: on a GPU. A single token's gap has
// no limit there.
constexpr double kMeanGap = 0.02;  // ours

// ---- GRAD-02, GRAD-05: steps 1 to 3, then every 50th; three checks in a row
constexpr double kRateOfRounding = 1e-7;  // ours: half an ulp of a weight of 1 in fp32 is 6e-8
constexpr std::int64_t kFirstChecks = 3, kCheckEvery = 50, kChecksToFail = 3;  // ours

// ---- NUM-08
constexpr std::int64_t kStepsAboveInitial = 20;  // ours
constexpr std::int64_t kInitialSteps = 5;        // ours: the initial loss is their mean
constexpr double kAboveWarn = 1.02;              // ours: a loss that stays where it began is no divergence
constexpr double kAboveFail = 1.5;               // ours; and at least 1 nat
constexpr double kNormOverMedian = 10;           // ours: 10 times the running median
constexpr std::int64_t kNormHistory = 50, kNormFrom = 20,
                       kNormSteps = 3;  // ours: one spike is clipped and forgotten

// ---- NUM-11
constexpr double kOverfitRise = 0.02;  // ours: above the lowest eval_loss; less is the noise of an evaluation
constexpr int kOverfitEvaluations = 2;  // ours: in a row, each above the one before

// ---- NUM-13
constexpr double kSpikeOverMedian = 1.8;    // finetune-doctor: 1.8 times the rolling median
constexpr double kSpikeDeviations = 6;      // finetune-doctor: z above 6
constexpr double kSpikeGaps = 0.15;         // finetune-doctor: gaps within 15 % are regular
constexpr double kSpikesAtBorders = 0.75;   // finetune-doctor: three quarters at the ends of epochs
constexpr double kSpikeLeastSpread = 0.02;  // ours: of the median; a loss without noise has no deviation
constexpr double kSpikeLeast = 0.5;         // ours: above the median; one hard row of a settled run is less
constexpr std::int64_t kSpikeLongest = 8;   // ours: a loss that stays above for longer has a new level
constexpr std::int64_t kSpikeReach = 1000;  // ours: steps, and three epochs at least; older ones do not count
constexpr std::int64_t kSpikeWindow = 50;   // ours: steps of the rolling median
constexpr std::int64_t kSpikeFrom = 12;     // ours: steps before the first judgment
constexpr std::int64_t kSpikesKept = 40;    // ours: the newest
constexpr std::int64_t kSpikesToSpeak = 3;  // ours: two may be chance
constexpr std::int64_t kSpikeLeastEpoch = 8;  // ours: of shorter epochs every step is near a border

// ---- MEM-02
constexpr std::int64_t kMemorySteps = 50;      // ours: a line through so many steps
constexpr std::int64_t kMemorySkip = 10;       // ours: buffers of the first steps are no creep
constexpr double kMemoryFit = 0.9;             // ours: R^2; a staircase of longer batches is no line
constexpr double kMemoryGrowth = 64e6;         // ours: bytes in those steps
constexpr std::int64_t kMemoryStepsLeft = 20;  // ours: then it pauses, while there is room to save

// ---- ENV-03
constexpr double kSecondsToCompare = 0.05;  // ours: shorter steps are mostly overhead
constexpr std::size_t kStepsOfPace = 5;     // ours: a window; its median is compared with the best one's
constexpr double kSlowPace = 0.5;           // ours: half of the pace that the run had
constexpr double kSlowProducts = 0.7;       // ours: then the processors are the cause

// ---- PREF-01, PREF-02
constexpr std::int64_t kStuckSteps = 5;  // ours: PREF-01
constexpr double kStuckMargin = 1e-6;    // ours: PREF-01
constexpr double kChosenReward = 0.02;   // ours: beta times nats; a fifth of a nat at beta 0.1
constexpr double kChosenFall = 0.5;      // ours: share of what log p(chosen) began with

}  // namespace hone::doctor::limits
