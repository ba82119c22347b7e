// The Tinker API, /api/v1/..., as the tinker SDK 0.38 speaks it: training and sampling of LoRAs on the model
// of the server. docs/serve-tinker.md lists each path and field.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/causal_lm.h"
#include "serve/api.h"
#include "serve/http.h"
#include "serve/kept_versions.h"
#include "serve/tinker/compute.h"
#include "serve/tinker/options.h"

namespace hone::serve {

class TaskThread;
class Service;

class TinkerApi : public Api {
 public:
  // All must outlive it, but `compute` must have stopped calling before it ends. Trained models hold a LoRA
  // in `model` only within a work of the compute thread.
  TinkerApi(model::CausalLm& model, Compute& compute, TinkerOptions options);
  ~TinkerApi() override;

  bool takes(const HttpRequest& request) const override;
  void handle(std::shared_ptr<Exchange> exchange) override;
  HttpAnswer failure(int status, const std::string& message) const override;
  // Before a stop, from another thread than those that call: each model that has been stepped since it was
  // saved is written to its tinker://RUN/weights/autosave. Waits for that.
  Autosaved autosave();
  KeptFacts versions() const;  // of sampling sessions; from any thread

 private:
  std::unique_ptr<Service> service_;
  std::unique_ptr<TaskThread> tasks_;
};

}  // namespace hone::serve
