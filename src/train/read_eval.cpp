#include "train/read_eval.h"

#include <iterator>

namespace hone::train {
namespace {

template <typename T>
void move_behind(std::vector<T>& to, std::vector<T>&& more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

void append(ExampleData& to, ExampleData more) {
  to.rows.append(more.rows, static_cast<std::int64_t>(to.examples.size()));
  to.examples.append(std::move(more.examples));
  move_behind(to.sets, std::move(more.sets));
}

void append(PairData& to, PairData more) {
  // a margin of 0 is none
  if (!to.margins.empty() || !more.margins.empty()) {
    to.margins.resize(to.pairs.size());
    more.margins.resize(more.pairs.size());
  }
  move_behind(to.pairs, std::move(more.pairs));
  move_behind(to.margins, std::move(more.margins));
  move_behind(to.desirable, std::move(more.desirable));
  move_behind(to.sets, std::move(more.sets));
}

}  // namespace hone::train
