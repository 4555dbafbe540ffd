// Keys of the model: the point that a run moves, and what its devices minimise.
#ifndef GRADSTREAM_SERVER_RUN_MODEL_KEYS_H_
#define GRADSTREAM_SERVER_RUN_MODEL_KEYS_H_

#include <memory>
#include <string>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/manifold/manifold.h"
#include "server/base/objection.h"
#include "server/run/key.h"

namespace gradstream {

struct RunParameters;

struct ModelKeys {
  static constexpr const char* kTitle = "Model";

  ManifoldId manifold = ManifoldId::kStiefel;
  RetractionKind retraction = RetractionKind::kDefault;
  TransportKind transport = TransportKind::kDefault;
  // Of manifold product: "stiefel 16x2, euclidean 10x1 exponential parallel", retraction and transport may be left out.
  // Whoever sets it calls set_parts() after it (server/run/parts.h).
  std::string parts;
  // Of manifold fixed_rank: "20x14", the matrix's shape; set_parts() makes the point's shape of it and of `rank`.
  std::string matrix;
  uint32_t rank = 0;
  Shape shape;
  std::string problem;
  // Of problem "network": network_digest() of the network, as 16 hexadecimal digits. In a configuration a path may
  // stand here; server/program/network_file.h puts the digest in its place before a run is made of it.
  std::string network;
  std::shared_ptr<const Parts> part_list;  // what shape.parts points to; no key

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"manifold", "", {}, "The model is a point of this manifold."}, keys.manifold);
    visit(Key{"retraction", "", {}, "This map leads from a tangent back to the manifold."}, keys.retraction);
    visit(Key{"transport", "", {}, "This map carries a tangent from one tangent space to another."}, keys.transport);
    visit(Key{"parts", "", {}, "A point of manifold `product` has these parts, a list (below)."}, keys.parts);
    visit(Key{"matrix", "", {}, "The matrices of manifold `fixed_rank` have this shape, such as `\"20x14\"` (below)."},
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
              "Problem `network` trains the network of this file ([network.md](network.md)); its digest may stand here "
              "too."},
          keys.network);
  }
};

// A check of check_parameters(), which has the order of all: an objection names the keys and the remedy.
// Of the name of the run, too. Call it after the checks of local work.
Objection check_model(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_MODEL_KEYS_H_
