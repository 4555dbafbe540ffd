#include "server/store/statement.h"

namespace gradstream {

StoreStatus status_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return StoreStatus::kOk;
    case SQLITE_FULL:
      return StoreStatus::kFull;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return StoreStatus::kBusy;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return StoreStatus::kCorrupt;
    case SQLITE_CONSTRAINT:  // a trigger of row_checks.h
      return sqlite_code == SQLITE_CONSTRAINT_TRIGGER ? StoreStatus::kCorrupt : StoreStatus::kFailed;
    default:
      return StoreStatus::kFailed;
  }
}

}  // namespace gradstream
