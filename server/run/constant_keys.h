// Keys of the constants of a problem, for server/run/advice.h alone; 0: not known.
#ifndef GRADSTREAM_SERVER_RUN_CONSTANT_KEYS_H_
#define GRADSTREAM_SERVER_RUN_CONSTANT_KEYS_H_

#include <string>

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/key.h"

namespace gradstream {

struct ConstantKeys {
  static constexpr const char* kTitle = "Constants for advice";

  Real smoothness = 0;      // L
  Real pl_constant = 0;     // mu of the Riemannian Polyak-Lojasiewicz condition
  Real gradient_noise = 0;  // sigma
  Real initial_excess = 0;  // F(x_0) - F*
  Real gradient_bound = 0;  // chi of 003
  Real diameter = 0;        // of the set that all models of the run are in
  Real loss_noise = 0;      // deviation of one evaluation of the loss

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(
        Key{"smoothness", "", from(0), "Advice takes this L, the Lipschitz constant of the gradient; 0 means unknown."},
        keys.smoothness);
    visit(Key{"pl_constant", "", from(0), "Advice takes this mu of the Polyak-Lojasiewicz condition; 0 means unknown."},
          keys.pl_constant);
    visit(Key{"gradient_noise", "", from(0),
              "Advice takes this sigma, the deviation of a stochastic gradient; 0 means unknown."},
          keys.gradient_noise);
    visit(Key{"initial_excess", "", from(0), "Advice takes this F(x_0) - F*; 0 means unknown."}, keys.initial_excess);
    visit(Key{"gradient_bound", "", from(0),
              "Advice takes this chi, which no gradient of a device's loss is longer than; 0 means unknown."},
          keys.gradient_bound);
    visit(Key{"diameter", "", from(0), "Advice takes this largest distance of two models of the run; 0 means unknown."},
          keys.diameter);
    visit(Key{"loss_noise", "", from(0),
              "Advice takes this deviation of one evaluation of the loss at one point; 0 means unknown."},
          keys.loss_noise);
  }
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_CONSTANT_KEYS_H_
