#include "server/coordinator/fleet.h"

#include <cstring>

#include <gtest/gtest.h>

#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(Fleet, WhatASequenceIsWorth) {
  Fleet fleet({"a"});
  DeviceRow& device = fleet.at(0);
  EXPECT_EQ(fleet.sequence_state(0, 0), SequenceState::kUnknown);
  EXPECT_EQ(fleet.sequence_state(0, 1), SequenceState::kUnknown);
  device.task_sequence = 5;
  device.is_task_open = true;
  device.judged.task_sequence = 3;
  EXPECT_EQ(fleet.sequence_state(0, 5), SequenceState::kOpen);
  EXPECT_EQ(fleet.sequence_state(0, 4), SequenceState::kSuperseded);  // a newer task was issued over it
  EXPECT_EQ(fleet.sequence_state(0, 3), SequenceState::kJudged);
  EXPECT_EQ(fleet.sequence_state(0, 2), SequenceState::kSuperseded);
  EXPECT_EQ(fleet.sequence_state(0, 6), SequenceState::kUnknown);
  device.judged.task_sequence = 5;
  device.is_task_open = false;
  EXPECT_EQ(fleet.sequence_state(0, 5), SequenceState::kJudged);
  EXPECT_EQ(fleet.sequence_state(0, 3), SequenceState::kSuperseded);
}

TEST(Fleet, NamesWhoIsMissing) {
  Fleet fleet({"a", "b", "c"});
  EXPECT_EQ(fleet.add("d"), 3U);
  EXPECT_EQ(fleet.active_count(), 4U);
  fleet.at(1).answered_version = 2;
  fleet.revoke(2);
  EXPECT_EQ(fleet.active_count(), 3U);
  EXPECT_EQ(fleet.missing(2), "a,d");
  fleet.at(0).answered_version = 2;
  fleet.at(3).answered_version = 2;
  EXPECT_EQ(fleet.missing(2), "none");
  fleet.restore(2);
  EXPECT_EQ(fleet.active_count(), 4U);
  EXPECT_EQ(fleet.missing(2), "c");
  EXPECT_FALSE(fleet.contains(4));
}

TEST(Fleet, NamesAFewOfManyMissing) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.push_back("d" + std::to_string(i));
  }
  EXPECT_EQ(Fleet(names).missing(0), "d0,d1,d2,d3,d4,d5,d6,d7,+92");
  names.resize(NameList::kNameCountMax);
  EXPECT_EQ(Fleet(names).missing(0), "d0,d1,d2,d3,d4,d5,d6,d7");
}

TEST(Fleet, NamesWhatAnImageLacks) {
  const RunParameters p = scalar_parameters();
  gs_Capabilities capabilities = good_hello(1).capabilities;
  EXPECT_EQ(lacking(p, capabilities), "");
  capabilities.problems_count = 0;
  EXPECT_EQ(lacking(p, capabilities), "problem:kpca");
  capabilities.manifolds &= ~(1U << gs_Manifold_MANIFOLD_STIEFEL);
  EXPECT_EQ(lacking(p, capabilities), "manifold:stiefel,problem:kpca");
  capabilities.solvers &= ~(1U << gs_Solver_SOLVER_PROJECTION);
  capabilities.estimators &= ~(1U << gs_Estimator_ESTIMATOR_PROJECTION_ONE_SIDED);
  capabilities.encodings &= ~(1U << gs_Encoding_ENCODING_F32);
  EXPECT_EQ(lacking(p, capabilities),
            "manifold:stiefel,problem:kpca,solver:projection,estimator:projection_one_sided,encoding:f32");
}

// A run of a network is done with that network alone. Who has not even the problem is told of the problem.
TEST(Fleet, NamesTheNetworkThatADeviceLacks) {
  RunParameters p = scalar_parameters();
  p.model->problem = "network";
  p.model->network = "00c0ffee12345678";
  gs_Capabilities capabilities = good_hello(1).capabilities;
  EXPECT_EQ(lacking(p, capabilities, 0), "problem:network");
  std::strcpy(capabilities.problems[0], "network");
  capabilities.features = 0;
  EXPECT_EQ(lacking(p, capabilities, 0), "feature:network") << "a loss of the user's own, by that name";
  capabilities.features |= 1U << gs_Feature_FEATURE_NETWORK;
  EXPECT_EQ(lacking(p, capabilities, 0), "network:00c0ffee12345678");
  EXPECT_EQ(lacking(p, capabilities, 1), "network:00c0ffee12345678");
  EXPECT_EQ(lacking(p, capabilities, 0x00c0ffee12345678), "");
  EXPECT_TRUE(lacks_network_alone("network:00c0ffee12345678"));
  EXPECT_FALSE(lacks_network_alone("manifold:product,network:00c0ffee12345678"));
  EXPECT_FALSE(lacks_network_alone("feature:network"));
  EXPECT_FALSE(lacks_network_alone("problem:network"));
  p.model->network.clear();  // a run that an older release began, of a loss of its own
  EXPECT_EQ(lacking(p, capabilities, 7), "");
}

TEST(Fleet, AnotherNetworkIsAnotherImage) {
  gs_Hello hello = good_hello(1);
  const uint32_t without = image_crc32c(hello);
  hello.network_digest = 7;
  EXPECT_NE(image_crc32c(hello), without);
}

// A device that computes in another precision reads no model of this server, whatever encoding uploads have.
TEST(Fleet, NamesThePrecisionThatAPeerLacks) {
  RunParameters p = scalar_parameters();
  gs_Capabilities capabilities = good_hello(1).capabilities;
  capabilities.encodings = 1U << gs_Encoding_ENCODING_F64 | 1U << gs_Encoding_ENCODING_INT8;
  p.wire->upload_encoding = Encoding::kInt8;
  EXPECT_EQ(lacking(p, capabilities), "encoding:f32");
  p.wire->upload_encoding = Encoding::kF32;
  EXPECT_EQ(lacking(p, capabilities), "encoding:f32");
}

TEST(Fleet, NamesThePartsOfAProductThatAnImageLacks) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = "stiefel 8x2, euclidean 3x1";
  p.model->shape = {};
  set_parts(&p);
  gs_Capabilities capabilities = good_hello(1).capabilities;
  capabilities.manifolds = 1U << gs_Manifold_MANIFOLD_STIEFEL;
  EXPECT_EQ(lacking(p, capabilities), "manifold:product,manifold:euclidean");
  capabilities.manifolds |= 1U << gs_Manifold_MANIFOLD_PRODUCT | 1U << gs_Manifold_MANIFOLD_EUCLIDEAN;
  EXPECT_EQ(lacking(p, capabilities), "");
  p.model->parts = "fixed_rank 8x4 2, euclidean 3x1";
  p.model->shape = {};
  set_parts(&p);
  capabilities.features = 0;  // an image that does not know the rank of a part
  EXPECT_EQ(lacking(p, capabilities), "manifold:fixed_rank,feature:part_rank");
  capabilities.manifolds |= 1U << gs_Manifold_MANIFOLD_FIXED_RANK;
  EXPECT_EQ(lacking(p, capabilities), "feature:part_rank");
  capabilities.features = 1U << gs_Feature_FEATURE_PART_RANK;
  EXPECT_EQ(lacking(p, capabilities), "");
  p.model->parts = "euclidean 784x48";  // nor one more than 32,768 numbers of a product
  p.model->shape = {};
  set_parts(&p);
  EXPECT_EQ(lacking(p, capabilities), "feature:large_product");
  capabilities.features |= 1U << gs_Feature_FEATURE_LARGE_PRODUCT;
  EXPECT_EQ(lacking(p, capabilities), "");
}

// An image older than a field of Welcome or Task would ignore it: it gets no task that needs the field.
TEST(Fleet, AnImageThatDoesNotKnowWhatARunNeedsIsNamed) {
  RunParameters p = tangent_parameters();
  gs_Capabilities capabilities = good_hello(1).capabilities;
  capabilities.features = 0;
  EXPECT_EQ(lacking(p, capabilities), "");
  p.wire->error_feedback = true;
  p.local->batch_sizes = "8 16";
  p.local->proximal = 0.1F;
  p.local->local_retraction = RetractionKind::kExponential;
  EXPECT_EQ(lacking(p, capabilities),
            "feature:error_feedback,feature:batch_sizes,feature:proximal,feature:local_retraction");
  p.local->proximal_form = ProximalForm::kChordal;
  EXPECT_EQ(lacking(p, capabilities),
            "feature:error_feedback,feature:batch_sizes,feature:proximal_form,feature:local_retraction");
  p.local->proximal_form = ProximalForm::kDistance;
  EXPECT_EQ(lacking(p, capabilities),
            "feature:error_feedback,feature:batch_sizes,feature:proximal_form,feature:proximal_distance,"
            "feature:local_retraction");
  p.local->proximal_form = ProximalForm::kGeodesic;
  capabilities.features = 0b111100;
  EXPECT_EQ(lacking(p, capabilities), "");
  p.local->correction_form = CorrectionForm::kUnbiased;
  EXPECT_EQ(lacking(p, capabilities), "feature:memory");
}

}  // namespace
}  // namespace gradstream
