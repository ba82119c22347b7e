// Trains a LoRA on the rows of a file: train_lora MODEL ROWS ADAPTER [STEPS]
#include <cstdlib>
#include <exception>
#include <iostream>

#include "hone/adapter.h"
#include "hone/data.h"
#include "hone/error.h"
#include "hone/loss.h"
#include "hone/model.h"
#include "hone/step.h"

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::cerr << "usage: train_lora MODEL ROWS ADAPTER [STEPS]\n";
    return 2;
  }
  const int steps = argc > 4 ? std::atoi(argv[4]) : 100;
  constexpr std::size_t kBatch = 4;

  hone::Model model(argv[1]);
  const std::vector<hone::Example> rows = hone::read_examples(model, argv[2]);
  hone::Adapter adapter(model, {.r = 16, .alpha = 32});
  hone::Step step(adapter);
  const hone::Loss loss = hone::cross_entropy();

  for (int i = 0; i < steps; ++i) {
    double sum = 0, targets = 0;
    for (std::size_t k = 0; k < kBatch; ++k) {
      const hone::Example& row = rows[(static_cast<std::size_t>(i) * kBatch + k) % rows.size()];
      for (const float weight : row.weights) targets += weight;
      sum += step.add(row, loss, 1.0 / kBatch).loss;
    }
    const hone::StepReport done = step.take(1e-3);
    std::cout << "step " << done.step << "  loss " << sum / targets << "  gradient " << done.grad_norm
              << '\n';
  }
  adapter.save(argv[3]);
  return 0;
} catch (const hone::UserError& error) {
  std::cerr << error.what() << '\n';
  return 2;
}
