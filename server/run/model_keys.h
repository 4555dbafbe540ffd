// Keys of the model: the point that a run moves, and what its devices minimise.
#ifndef GRADSTREAM_SERVER_RUN_MODEL_KEYS_H_
#define GRADSTREAM_SERVER_RUN_MODEL_KEYS_H_

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

struct ModelKeys : ModelCore {
  static constexpr const char* kTitle = "Model";

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"manifold", "", {}, "The model is a point of this manifold."}, keys.manifold);
    visit(Key{"retraction", "", {}, "This map leads from a tangent back to the manifold."}, keys.retraction);
    visit(Key{"transport", "", {}, "This map carries a tangent from one tangent space to another."}, keys.transport);
    visit(Key{"parts", "", {}, "A point of manifold `product` has these parts, a list (`docs/reference/models.md`)."},
          keys.parts);
    visit(
        Key{"matrix",
            "",
            {},
            "The matrices of manifold `fixed_rank` have this shape, such as `\"20x14\"` (`docs/reference/models.md`)."},
        keys.matrix);
    visit(Key{"rank", "", from(1, kFixedRankMax).only("manifold `fixed_rank`"),
              "The matrices of manifold `fixed_rank` have this rank."},
          keys.rank);
    visit(Key{"rows", "", from(1, kDimensionMax),
              "The model has this many rows (for kPCA the values of one sample). Leave it out for `product` and "
              "`fixed_rank`."},
          keys.shape.rows);
    visit(Key{"cols", "", from(1, kDimensionMax), "The model has this many columns."}, keys.shape.cols);
    visit(Key{"problem", "characters", from(1, kProblemNameSizeMax), "The devices minimise the loss of this name."},
          keys.problem);
    visit(Key{"network",
              "",
              {},
              "Problem `network` trains the network of this file (`docs/network.md`); its digest may stand here "
              "too."},
          keys.network);
  }
};

// A check of check_parameters(), which has the order of all: an objection names the keys and the remedy.
// Of the name of the run, too. Call it after the checks of local work.
Objection check_model(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_MODEL_KEYS_H_
