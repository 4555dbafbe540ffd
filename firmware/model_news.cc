// gs_on_model(): an application hears of each version.
#include "firmware/application.h"

namespace gradstream {
namespace {

[[gnu::used]] const char* const kHooks = &kUseHooks;

struct Listener {
  void (*callback)(void* context, const gs_model_view* model) = nullptr;
  void* context = nullptr;
};

Listener listener;

}  // namespace

void tell_model() {
  gs_model_view model;
  if (listener.callback != nullptr && gs_model(&model)) {
    listener.callback(listener.context, &model);
  }
}

}  // namespace gradstream

void gs_on_model(void (*callback)(void* context, const gs_model_view* model), void* context) {
  gradstream::listener = {callback, context};
}
