// gs_on_model(): an application hears of each version.
#include "firmware/application.h"
#include "firmware/device_parts.h"

namespace gradstream {
namespace {

[[gnu::used]] const char* const kHooks = &kUseHooks;

ModelListener own_listener;

}  // namespace

void tell_model() {
  const ModelListener& listener = at_work(own_listener);
  gs_model_view model;
  if (listener.callback != nullptr && gs_model(&model)) {
    listener.callback(listener.context, &model);
  }
}

}  // namespace gradstream

void gs_on_model(void (*callback)(void* context, const gs_model_view* model), void* context) {
  gradstream::at_work(gradstream::own_listener) = {callback, context};
}

void gs_device_on_model(gs_device* device, void (*callback)(void* context, const gs_model_view* model), void* context) {
  static_cast<gradstream::ModelListener&>(*device) = {callback, context};
}
