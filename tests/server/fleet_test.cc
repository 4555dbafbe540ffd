#include "server/coordinator/fleet.h"

#include <cstring>

#include <gtest/gtest.h>

#include "runtime/base/random.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(Fleet, NamesWhoIsMissing) {
  Fleet fleet({"a", "b", "c"});
  EXPECT_EQ(fleet.add("d"), 3U);
  EXPECT_EQ(fleet.active_count(), 4U);
  EXPECT_EQ(fleet.missing(), "a,b,c,d") << "no version is open yet";
  fleet.begin_version(2, {});
  fleet.at(1).row.answered_version = 2;
  fleet.revoke(2);
  EXPECT_EQ(fleet.active_count(), 3U);
  EXPECT_EQ(fleet.missing(), "a,d");
  fleet.at(0).row.answered_version = 2;
  fleet.at(3).row.answered_version = 2;
  EXPECT_EQ(fleet.missing(), "none");
  fleet.restore(2);
  EXPECT_EQ(fleet.active_count(), 4U);
  EXPECT_EQ(fleet.missing(), "c");
  fleet.begin_version(3, {});
  EXPECT_EQ(fleet.missing(), "a,b,c,d");
  EXPECT_FALSE(fleet.contains(4));
}

// `gradstream status` knows the answers before it opens the version that they are of.
TEST(Fleet, CountsAnswersThatWereKnownBeforeTheirVersion) {
  Fleet fleet({"a", "b", "c"});
  fleet.at(1).row.answered_version = 2;
  fleet.begin_version(2, {});
  EXPECT_EQ(fleet.missing(), "a,c");
  EXPECT_EQ(fleet.find_miscount(), "");
  fleet.at(0).row.answered_version = 3;
  fleet.begin_version(3, {3, {0, 2}});
  EXPECT_EQ(fleet.missing_names(), std::vector<std::string>{"c"});
  EXPECT_EQ(fleet.find_miscount(), "");
}

std::vector<std::string> names_of_many(uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) {
    names.push_back("d" + std::to_string(i));
  }
  return names;
}

TEST(Fleet, NamesAFewOfManyMissing) {
  EXPECT_EQ(Fleet(names_of_many(100)).missing(), "d0,d1,d2,d3,d4,d5,d6,d7,+92");
  EXPECT_EQ(Fleet(names_of_many(NameList::kNameCountMax)).missing(), "d0,d1,d2,d3,d4,d5,d6,d7");
}

TEST(Fleet, MembersAreAskedUntilTheLastOfThemHasLeft) {
  Fleet fleet(names_of_many(5));
  fleet.begin_version(1, {5, {1, 3}});
  EXPECT_EQ(fleet.asked_count(), 2U);
  EXPECT_EQ(fleet.add("late"), 5U);
  EXPECT_FALSE(fleet.is_asked(5)) << "it was not among those that could be chosen";
  EXPECT_EQ(fleet.missing(), "d1,d3");
  fleet.at(1).row.answered_version = 1;
  EXPECT_EQ(fleet.missing_names(), std::vector<std::string>{"d3"});
  fleet.revoke(1);
  fleet.revoke(3);
  EXPECT_FALSE(fleet.has_members());
  EXPECT_TRUE(fleet.is_asked(5));
  EXPECT_EQ(fleet.missing(), "d0,d2,d4,late");
  fleet.restore(3);
  EXPECT_EQ(fleet.missing(), "d3");
  fleet.begin_version(2, {});
  EXPECT_EQ(fleet.missing(), "d0,d2,d3,d4,late");
  EXPECT_EQ(fleet.find_miscount(), "");
}

// What devices are to the open version, whatever changes: the counts are those that a look at all devices gives.
TEST(Fleet, CountsWhatDevicesAreToTheOpenVersion) {
  Fleet fleet(names_of_many(20));
  RandomStream draw(RandomKey{});
  uint32_t version = 0;
  for (int i = 0; i < 3000; ++i) {
    const uint32_t index = draw.next() % fleet.size();
    FleetDevice& device = fleet.at(index);
    switch (draw.next() % 10) {
      case 0:
        device.is_revoked ? fleet.restore(index) : fleet.revoke(index);
        break;
      case 1:
        device.session.is_heard = !device.session.is_heard;
        break;
      case 2:
        device.session.is_capable = !device.session.is_capable;
        break;
      case 3:
        device.row.answered_version = version;
        break;
      case 4:
        fleet.set_barred(index, !device.session.is_barred);
        break;
      case 5:
        device.row.judged.verdict = gs_Verdict_VERDICT_REFUSED;
        device.row.refusals.version = version;
        device.row.refusals.count = draw.next() % 5;
        device.session.refusals.is_forgiven = draw.next() % 2 == 0;
        break;
      case 6:
        device.session.image.can_evaluate = !device.session.image.can_evaluate;
        break;
      case 7:
        if (draw.next() % 4 == 0) {
          fleet.begin_version(++version, draw.next() % 2 == 0 ? Cohort() : Cohort{20, {index}});
        }
        break;
      default:
        break;
    }
    if (draw.next() % 2 == 0) {
      uint32_t sum = 0;
      for (const uint32_t count : fleet.standings()) {
        sum += count;
      }
      ASSERT_EQ(sum, fleet.asked_count());
      for (const uint32_t blocked : fleet.blocked()) {
        ASSERT_TRUE(fleet.is_blocked(blocked) && fleet.is_asked(blocked));
      }
    }
    ASSERT_EQ(fleet.find_miscount(), "") << i;
  }
}

TEST(Fleet, NamesWhoCannotEvaluate) {
  Fleet fleet(names_of_many(30));
  EXPECT_EQ(fleet.unable_to_evaluate(), "none") << "nobody was heard";
  for (uint32_t index = 10; index < 20; ++index) {
    fleet.at(index).session.is_heard = true;
  }
  fleet.revoke(10);
  EXPECT_EQ(fleet.unable_to_evaluate(), "d11,d12,d13,d14,d15,d16,d17,d18,+1");
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

TEST(Fleet, NamesTheEncodingOfVersionsThatAnImageLacks) {
  RunParameters p = scalar_parameters();
  gs_Capabilities capabilities = good_hello(1).capabilities;
  capabilities.encodings = 1U << gs_Encoding_ENCODING_F32;
  EXPECT_EQ(lacking(p, capabilities), "");
  p.wire->record_encoding = Encoding::kBf16;
  EXPECT_EQ(lacking(p, capabilities), "encoding:bf16");
  p.wire->upload_encoding = Encoding::kBf16;
  EXPECT_EQ(lacking(p, capabilities), "encoding:bf16") << "once";
  RunParameters of_tensors = tangent_parameters();
  of_tensors.wire->record_encoding = Encoding::kBf16;
  EXPECT_EQ(lacking(of_tensors, capabilities), "") << "a version is a model then";
}

// A smallest image has no error feedback, and what came to images later; an image from before both sends tensors.
TEST(Fleet, NamesTensorsWhereAnImageSendsScalarsAlone) {
  const RunParameters p = tangent_parameters();
  gs_Capabilities capabilities = good_hello(1).capabilities;
  capabilities.features = 1U << gs_Feature_FEATURE_BATCH_SIZES | 1U << gs_Feature_FEATURE_LOCAL_RETRACTION;
  EXPECT_EQ(lacking(p, capabilities), "upload_stream:tangent");
  EXPECT_EQ(lacking(scalar_parameters(), capabilities), "");
  capabilities.features |= 1U << gs_Feature_FEATURE_ERROR_FEEDBACK;
  EXPECT_EQ(lacking(p, capabilities), "");
  capabilities.features = 0;
  EXPECT_EQ(lacking(p, capabilities), "");
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
