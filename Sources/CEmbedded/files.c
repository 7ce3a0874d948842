/* The files that stand in the program. They are compiled here and not as resources of the Swift targets (.embedInCode), because those
   become literals of arrays, at which Swift compiles for most of a minute.

   A new file is an entry: ENTRY with its name, #embed with its place as seen from this folder, END. A test finds a file that has none
   (AssetTests, HouseRulesTests). A changed file is compiled anew by the next build, an empty one is an error, and so is a missing one. */
#include "CEmbedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY(NAME) if (!strcmp (name, NAME)) { static const char text[] = {
#define END , 0}; return (struct embedded_file) {text, sizeof text - 1}; }

struct embedded_file
embedded (const char *name)
{
  ENTRY ("m0001_init.sql")
#embed "../../migrations/sqlite/m0001_init.sql"
  END
  ENTRY ("m0002_delivery.sql")
#embed "../../migrations/sqlite/m0002_delivery.sql"
  END
  ENTRY ("m0003_busy_devices.sql")
#embed "../../migrations/sqlite/m0003_busy_devices.sql"
  END
  ENTRY ("m0004_realtime.sql")
#embed "../../migrations/sqlite/m0004_realtime.sql"
  END
  ENTRY ("m0005_cheap_checks.sql")
#embed "../../migrations/sqlite/m0005_cheap_checks.sql"
  END
  ENTRY ("m0006_unread_from.sql")
#embed "../../migrations/sqlite/m0006_unread_from.sql"
  END
  ENTRY ("m0007_withheld.sql")
#embed "../../migrations/sqlite/m0007_withheld.sql"
  END
  ENTRY ("m0008_key_kinds.sql")
#embed "../../migrations/sqlite/m0008_key_kinds.sql"
  END
  ENTRY ("m0009_traceparent.sql")
#embed "../../migrations/sqlite/m0009_traceparent.sql"
  END
  ENTRY ("m0010_restore.sql")
#embed "../../migrations/sqlite/m0010_restore.sql"
  END
  ENTRY ("m0011_seen.sql")
#embed "../../migrations/sqlite/m0011_seen.sql"
  END
  ENTRY ("m0012_in_parts.sql")
#embed "../../migrations/sqlite/m0012_in_parts.sql"
  END
  ENTRY ("m0013_import.sql")
#embed "../../migrations/sqlite/m0013_import.sql"
  END
  ENTRY ("m0014_unsuccessful.sql")
#embed "../../migrations/sqlite/m0014_unsuccessful.sql"
  END
  ENTRY ("m0015_retained.sql")
#embed "../../migrations/sqlite/m0015_retained.sql"
  END
  ENTRY ("m0016_left.sql")
#embed "../../migrations/sqlite/m0016_left.sql"
  END
  ENTRY ("m0017_parts_under_key.sql")
#embed "../../migrations/sqlite/m0017_parts_under_key.sql"
  END
  ENTRY ("m0018_kind.sql")
#embed "../../migrations/sqlite/m0018_kind.sql"
  END
  ENTRY ("m0019_payload.sql")
#embed "../../migrations/sqlite/m0019_payload.sql"
  END
  ENTRY ("m0020_payload_aside.sql")
#embed "../../migrations/sqlite/m0020_payload_aside.sql"
  END
  ENTRY ("m0021_external_ids.sql")
#embed "../../migrations/sqlite/m0021_external_ids.sql"
  END
  ENTRY ("m0022_dismissals.sql")
#embed "../../migrations/sqlite/m0022_dismissals.sql"
  END

  ENTRY ("m0023_synced_at.sql")
#embed "../../migrations/sqlite/m0023_synced_at.sql"
  END
  ENTRY ("m0024_given.sql")
#embed "../../migrations/sqlite/m0024_given.sql"
  END
  ENTRY ("m0025_broadcasts.sql")
#embed "../../migrations/sqlite/m0025_broadcasts.sql"
  END
  ENTRY ("m0026_lane_parts.sql")
#embed "../../migrations/sqlite/m0026_lane_parts.sql"
  END

  ENTRY ("p0001_init.sql")
#embed "../../migrations/postgres/p0001_init.sql"
  END
  ENTRY ("p0002_revocations.sql")
#embed "../../migrations/postgres/p0002_revocations.sql"
  END
  ENTRY ("p0003_parts_under_key.sql")
#embed "../../migrations/postgres/p0003_parts_under_key.sql"
  END
  ENTRY ("p0004_write_proofs.sql")
#embed "../../migrations/postgres/p0004_write_proofs.sql"
  END
  ENTRY ("p0005_kind.sql")
#embed "../../migrations/postgres/p0005_kind.sql"
  END
  ENTRY ("p0006_payload.sql")
#embed "../../migrations/postgres/p0006_payload.sql"
  END
  ENTRY ("p0007_external_ids.sql")
#embed "../../migrations/postgres/p0007_external_ids.sql"
  END
  ENTRY ("p0008_dismissals.sql")
#embed "../../migrations/postgres/p0008_dismissals.sql"
  END

  ENTRY ("p0009_synced_at.sql")
#embed "../../migrations/postgres/p0009_synced_at.sql"
  END
  ENTRY ("p0010_given.sql")
#embed "../../migrations/postgres/p0010_given.sql"
  END
  ENTRY ("p0011_broadcasts.sql")
#embed "../../migrations/postgres/p0011_broadcasts.sql"
  END
  ENTRY ("p0012_lane_parts.sql")
#embed "../../migrations/postgres/p0012_lane_parts.sql"
  END

  /* The commit, which `make build` writes there. */
  ENTRY ("revision.txt")
#if __has_embed ("../../.build/revision.txt") == 1
#embed "../../.build/revision.txt"
#else
  'u', 'n', 'k', 'n', 'o', 'w', 'n'
#endif
  END

  ENTRY ("openapi.yaml")
#embed "../../openapi.yaml"
  END

  ENTRY ("badge_controller.js")
#embed "../CampanileServer/web/badge_controller.js"
  END
  ENTRY ("campanile-badge.js")
#embed "../CampanileServer/web/campanile-badge.js"
  END
  ENTRY ("campanile-cable.js")
#embed "../CampanileServer/web/campanile-cable.js"
  END
  ENTRY ("campanile-inbox.js")
#embed "../CampanileServer/web/campanile-inbox.js"
  END
  ENTRY ("campanile-links.js")
#embed "../CampanileServer/web/campanile-links.js"
  END
  ENTRY ("campanile.svg")
#embed "../CampanileServer/web/campanile.svg"
  END
  ENTRY ("console-devices.js")
#embed "../CampanileServer/web/console-devices.js"
  END
  ENTRY ("console-inbox.js")
#embed "../CampanileServer/web/console-inbox.js"
  END
  ENTRY ("console-kit.js")
#embed "../CampanileServer/web/console-kit.js"
  END
  ENTRY ("console-operate.js")
#embed "../CampanileServer/web/console-operate.js"
  END
  ENTRY ("console-pictures.js")
#embed "../CampanileServer/web/console-pictures.js"
  END
  ENTRY ("console-preview.js")
#embed "../CampanileServer/web/console-preview.js"
  END
  ENTRY ("console-sending.js")
#embed "../CampanileServer/web/console-sending.js"
  END
  ENTRY ("console.css")
#embed "../CampanileServer/web/console.css"
  END
  ENTRY ("console.html")
#embed "../CampanileServer/web/console.html"
  END
  ENTRY ("console.js")
#embed "../CampanileServer/web/console.js"
  END
  ENTRY ("native.css")
#embed "../CampanileServer/web/native.css"
  END
  ENTRY ("reference.css")
#embed "../CampanileServer/web/reference.css"
  END
  ENTRY ("reference.html")
#embed "../CampanileServer/web/reference.html"
  END

  ENTRY ("page.css")
#embed "../PushSimulator/page.css"
  END
  ENTRY ("page.html")
#embed "../PushSimulator/page.html"
  END
  ENTRY ("page.js")
#embed "../PushSimulator/page.js"
  END
  ENTRY ("phones.css")
#embed "../PushSimulator/phones.css"
  END
  ENTRY ("phones.js")
#embed "../PushSimulator/phones.js"
  END

  fprintf (stderr, "Sources/CEmbedded/files.c has no %s.\n", name);
  abort ();
}
