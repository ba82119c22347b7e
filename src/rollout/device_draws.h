// The next tokens of an engine's sequences, drawn on their device: a row of a DeviceSampler for each sequence of the batch, which
// keeps it from step to step. If the device has no kernel for that, the engine draws on the host
// (rollout/decoder.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rollout/device_sampler.h"
#include "rollout/sequence.h"

namespace hone::rollout {

// A sequence whose tokens have all been read, and the row of hidden that its next token is drawn from.
struct Ready {
  Sequence* sequence = nullptr;
  std::int64_t row = 0;
};

class DeviceDraws {
 public:
  DeviceDraws(at::Device device, std::int64_t vocabulary) : device_(device), vocabulary_(vocabulary) {}

  // Returns whether the device draws the next token of this sequence.
  bool takes(const Sequence& sequence) const;

  // Gives each of `ready` a row of the sampler, and says what the logits of step() are to be: of each of their rows, the row of
  // hidden. There may be more of them than `ready` has; those draw nothing. InternalError unless takes() of all.
  std::vector<std::int64_t> place(std::span<const Ready> ready);
  // A token of each of `ready`, which are place()'s, from logits [rows, V]. Waits for the device once.
  std::vector<DeviceSampler::Token> step(std::span<const Ready> ready, const at::Tensor& logits);

 private:
  // Whose row it is, and how far its completion was then; no id: nobody's.
  struct Place {
    RequestId id = 0;
    std::int64_t turns = 0, drawn = 0;
    bool goes_on = false;
    bool operator==(const Place&) const = default;
  };
  static Place place_of(const Sequence& sequence);
  void make_room(std::int64_t sequences);

  const at::Device device_;
  const std::int64_t vocabulary_;
  std::unique_ptr<DeviceSampler> sampler_;
  std::vector<Place> places_;      // of each row
  std::vector<std::size_t> rows_;  // of each of the last place()'s `ready`
};

}  // namespace hone::rollout
