// The next tokens of an engine's sequences, drawn on their device: a row of a DeviceSampler for each sequence of the batch, which
// keeps it from step to step. If the device has no kernel for that, the engine draws on the host (rollout/decoder.h).
//
// A step has three parts: place() or go_on() says whose logits they are to be, draw() draws without a wait, and take() waits for what
// was drawn. The next go_on() and draw() may come before take(): then the device goes on while the host reads.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
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

  // Rows of the sampler for so many sequences that decode together.
  static std::int64_t rows_for(std::int64_t sequences);

  // Returns whether the device draws the next token of this sequence.
  bool takes(const Sequence& sequence) const;

  // Gives each of `ready` a row of the sampler, and says what the logits of draw() are to be: of each of their rows, the row of
  // hidden. There may be more of them than `ready` has; those draw nothing. InternalError unless takes() of all, or where draws
  // are not taken yet.
  std::vector<std::int64_t> place(std::span<const Ready> ready);
  // The same of sequences of the last draw, `which` by their places in it, whose tokens the host need not know. None: they are so
  // few that they are to be placed again.
  std::vector<std::int64_t> go_on(std::span<const std::size_t> which);
  // [n] int32 on the device: the tokens that go_on()'s sequences drew last.
  at::Tensor last_ids();
  // The step of all rows of the sampler, in its order, for work that is recorded (ops/machine/step_graphs.h): rows() of them, whose
  // sequences those of go_on() are by row_of(). settle() and put_form() are before it, send() after it.
  std::int64_t rows() const { return static_cast<std::int64_t>(places_.size()); }
  std::size_t row_of(std::size_t placed) const { return rows_.at(placed); }
  const at::Tensor& ids() const { return sampler_->ids(); }
  void settle() { sampler_->settle(); }
  void put_form(std::vector<std::int64_t>& out) const { sampler_->put_form(out); }
  void step(const at::Tensor& logits);
  void send();

  // step() and send(). A token of each of the sequences that were placed, from logits [rows, V]; those of go_on() that have ended get none.
  void draw(const at::Tensor& logits);
  // Returns what the oldest draw() that was not taken gave, in the order of its sequences. Waits until it is done.
  std::vector<DeviceSampler::Token> take();
  // The host's state is what counts: all rows begin again. Drops what was drawn and not taken.
  void begin_again();
  // [n] int64 on the device; the same tensor while `rows` is the same list.
  const at::Tensor& index_of(const std::vector<std::int64_t>& rows);

 private:
  // Whose row it is, and how far its completion was then; no id: nobody's.
  struct Place {
    RequestId id = 0;
    std::int64_t turns = 0, drawn = 0;
    bool goes_on = false;
    bool operator==(const Place&) const = default;
  };
  struct Index {
    std::vector<std::int64_t> rows;
    at::Tensor sent;
  };
  static Place place_of(const Sequence& sequence);
  static const at::Tensor& send(Index& index, const std::vector<std::int64_t>& rows, at::Device device);
  void make_room(std::int64_t sequences);

  const at::Device device_;
  const std::int64_t vocabulary_;
  std::unique_ptr<DeviceSampler> sampler_;
  std::vector<Place> places_;                   // of each row
  std::vector<std::size_t> rows_;               // of each sequence that was placed last
  std::deque<std::vector<std::size_t>> drawn_;  // the same of each draw that was not taken
  Index of_hidden_, of_ids_;
};

}  // namespace hone::rollout
