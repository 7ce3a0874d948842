package com.campanile

import java.io.File
import kotlin.system.exitProcess
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonElement

/** Collects tests and runs them one after the other. Without a library for that: the compiler's package has none. */
class Tests {
    private var passed = 0
    private val failed = mutableListOf<String>()

    fun test(name: String, body: () -> Unit) {
        try {
            body()
            passed += 1
        } catch (failure: Throwable) {
            failed += name
            println("FAILED: $name")
            println("    $failure")
            failure.stackTrace.filter { it.className.startsWith("com.campanile") }.take(6).forEach { println("    at $it") }
        }
    }

    /** @return the exit code. */
    fun end(): Int {
        println("kotlin: $passed tests passed, ${failed.size} failed")
        return if (failed.isEmpty()) 0 else 1
    }
}

fun expect(isTrue: Boolean, says: () -> String) {
    if (!isTrue) throw AssertionError(says())
}

fun <Value> expectEqual(actual: Value, expected: Value, says: String = "") {
    if (actual != expected) throw AssertionError("$says: expected <$expected>, got <$actual>")
}

fun expectFailure(kind: CampanileFailure.Kind, body: () -> Unit): CampanileFailure {
    try {
        body()
    } catch (failure: CampanileFailure) {
        expectEqual(failure.kind, kind, failure.toString())
        return failure
    }
    throw AssertionError("expected a failure of the kind $kind")
}

/** Asks again until it is true. The limit is for what never comes, on the busiest machine. */
fun eventually(says: String, isTrue: () -> Boolean) {
    val end = System.nanoTime() + 90_000_000_000
    while (!isTrue()) {
        if (System.nanoTime() > end) throw AssertionError("not within 90 s: $says")
        Thread.sleep(20)
    }
}

class MemoryStorage(vararg kept: Pair<String, String>) : ClientStorage {
    private val values = mutableMapOf(*kept)

    @Synchronized
    override fun read(key: String): String? = values[key]

    @Synchronized
    override fun write(key: String, text: String?) {
        if (text == null) values.remove(key) else values[key] = text
    }
}

/**
 * Runs the tests: `vectors FOLDER` those of clients/vectors alone, `all FOLDER SERVER` also the others, SERVER being a file of
 * JSON that says how to reach a server with a simulator behind it (e2e/contract/kotlin_clients.py writes it).
 */
object Main {
    @JvmStatic
    fun main(arguments: Array<String>) {
        exitProcess(run(arguments))
    }

    @JvmStatic
    fun run(arguments: Array<String>): Int {
        val tests = Tests()
        vectorTests(tests) { name -> Json.parseToJsonElement(File(arguments[1], "$name.json").readText()) }
        if (arguments[0] == "all") {
            badgeTests(tests)
            alertTests(tests)
            dismissalTests(tests)
            callTests(tests)
            registrationTests(tests)
            firebaseTests(tests)
            streamTests(tests)
            serverTests(tests, LiveServer(Json.parseToJsonElement(File(arguments[2]).readText())))
        }
        return tests.end()
    }
}

internal fun JsonElement.cases(key: String): List<JsonElement> =
    this[key].list?.takeIf { it.isNotEmpty() } ?: throw AssertionError("no cases under $key")
