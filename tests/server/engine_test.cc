#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include "tests/support/engine_contract.h"
#include "tests/support/fake_engine_harness.h"

namespace gradstream {
namespace {

std::unique_ptr<EngineHarness> make() { return std::make_unique<FakeHarness>(); }

TEST(Engine, TakesEachUpdateOnce) { expect_exactly_once(make); }
TEST(Engine, CutsABatchWhoseVersionIsOver) { expect_a_cut(make); }
TEST(Engine, SaysWhetherABatchHappened) { expect_unknowns_resolve(make); }
TEST(Engine, DoesNotGuessAcrossTwoEpochs) { expect_no_guess(make); }
TEST(Engine, SealsAVersion) { expect_a_seal(make); }
TEST(Engine, TellsSumsByTheirPlace) { expect_sums_by_place(make); }
TEST(Engine, KeepsTheLastUpdateOfEachDevice) { expect_a_memory(make); }
TEST(Engine, HasOneClock) { expect_one_clock(make); }
TEST(Engine, HasOnePublisherForEachVersion) { expect_one_publisher(make); }
TEST(Engine, FreesALeaseThatIsGivenBack) { expect_a_released_lease(make); }
TEST(Engine, SealsNothingOfARunThatIsPaused) { expect_states(make); }
TEST(Engine, TellsChangesOfTheFleet) { expect_fleet_changes(make); }

}  // namespace
}  // namespace gradstream
