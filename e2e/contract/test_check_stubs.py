"""Shows what the comparison of declarations with a library's sources finds, on a library that is made up.

The declarations are the same as the library's, and nothing may differ. Then each control changes them in one place, and a
difference must be found.
"""
import sys

from e2e.contract import kotlin_declarations, swift_declarations
from e2e.contract.comparison import Comparison, Library

SWIFT = '''
/// A door. /* Comments /* may stand */ in comments. */ "{"
open class Door: Control, Opening {
    public init(width: Int = 90, /* cm */ color: Color? = nil) { self.width = width; print("\\(width > 3 ? "}" : "{")") }
    @available(*, unavailable)
    public required init?(coder: Coder) { nil }
    public private(set) var width: Int
    open weak var delegate: DoorDelegate?
    public var isLocked = false { didSet { print(isLocked) } }
    public var area: Int { width * 200 }
    var key = Key()
    @discardableResult
    public func open<T: Encodable>(by angle: Int, with value: T) async throws -> Bool
    {
        return true
    }
    open class var name: String { "door" }
}
extension Door: Locking { public func lock(_ handler: @escaping () -> Void) {} }
open class FrontDoor: Door {}
public protocol DoorDelegate: AnyObject {
    typealias Handler = () -> Void
    func opened(_ door: Door, handler: Handler?)
    func closed(_ door: Door)
}
public extension DoorDelegate {
    func closed(_ door: Door) {}
}
@MainActor public protocol Opening: AnyObject { var isOpen: Bool { get } }
public protocol Locking {}
public enum Side: String, Codable { case left, right
    case none = "no_side" }
public struct Plan: Codable { public let side: Side }
#if os(iOS)
extension Door { public enum Kind { case wood, steel } }
#else
public func elsewhere() {}
#endif
'''
SWIFT_DECLARATIONS = '''
@MainActor open class Door: Control, Opening, Locking {
  public init(width: Int = 90, color: Color? = nil)
  @available(*, unavailable)
  public required init?(coder: Coder)
  public var width: Int { get }
  weak open var delegate: (any DoorDelegate)?
  public var isLocked: Bool
  public var area: Int { get }
  @discardableResult public func open<T: Encodable>(by angle: Int, with value: T) async throws -> Bool
  public func lock(_ handler: @escaping () -> Void)
  open class var name: String { get }
  public enum Kind { case wood, steel }
}
@MainActor open class FrontDoor: Door {
  public override init(width: Int = 90, color: Color? = nil)
  public required init?(coder: Coder)
}
public protocol DoorDelegate: AnyObject {
  typealias Handler = () -> Void
  func opened(_ door: Door, handler: Self.Handler?)
  func closed(_ door: Door)
}
extension DoorDelegate {
  public func closed(_ door: Door)
}
@MainActor public protocol Opening: AnyObject {
  var isOpen: Bool { get }
}
public protocol Locking {}
public enum Side: String, Codable { case left, right, none = "no_side" }
public struct Plan: Codable {
  public let side: Side
  public func encode(to encoder: Encoder) throws
}
'''
SWIFT_CONTROLS = [
    ("a label", "by angle: Int", "to angle: Int"),
    ("a type", "public let side: Side", "public let side: Side?"),
    ("a value by default", "open class Door: Control, Opening, Locking {\n  public init(width: Int = 90,",
     "open class Door: Control, Opening, Locking {\n  public init(width: Int = 80,"),
    ("an access", "public func lock", "open func lock"),
    ("a member that isn't public", "public var area: Int { get }", "public var area: Int { get }\n  public var key: Key"),
    ("an isolation", "@MainActor public protocol Opening", "public protocol Opening"),
    ("an effect", "async throws", "async"),
    ("a closure that escapes", "@escaping ", ""),
    ("a result that may be dropped", "@discardableResult ", ""),
    ("an initialiser that can't be used", "@available(*, unavailable)\n  ", ""),
    ("a setter", "public var width: Int { get }", "public var width: Int"),
    ("a constant that is a variable", "public let side", "public var side"),
    ("a word less", "weak open var", "open var"),
    ("a superclass", "FrontDoor: Door", "FrontDoor: Control"),
    ("a conformance that isn't there", "public protocol Locking {}", "public protocol Locking: Sendable {}"),
    ("an initialiser that isn't inherited", "public override init(width: Int = 90,", "public override init(width: Int = 70,"),
    ("a requirement left out", "  func opened(_ door: Door, handler: Self.Handler?)\n", ""),
    ("a case left out", "left, right, none", "left, none"),
    ("a raw value", '"no_side"', '"none"'),
    ("an initialiser that a subclass must have", "public init(width: Int = 90, color: Color? = nil)\n  @available(*, unavailable)\n"
     "  public required init?(coder: Coder)\n", "public init(width: Int = 90, color: Color? = nil)\n"),
    ("a default that isn't there", "extension DoorDelegate {",
     "extension DoorDelegate {\n  public func opened(_ door: Door, handler: Handler?)"),
    ("what isn't compiled", "public protocol Locking {}", "public protocol Locking {}\npublic func elsewhere()"),
    ("what Codable doesn't make", "encode(to encoder: Encoder) throws", "encode(to encoder: Encoder)"),
]
KOTLIN = '''
package house.doors

import house.Wall

/** A door. */
@Suppress("unused")
abstract class Door(val width: Int = 90, private val wall: Wall) : Wall(width), Opening {
    abstract fun kinds(): List<Kind>
    open fun opened(by: Int, then: (Door) -> Unit = {}) { println("${if (by > 3) "}" else "{"}") }
    fun isOpen() = true
    var angle: Int = 0
        private set
    val area: Int get() { return width * 200 }
    internal fun lock() {}
    enum class Kind { WOOD, STEEL }
    data class Plan(val name: String? = null)
    companion object { fun make(): Door = Door() }
}
interface Opening { fun open()
    fun close() {} }
object House {
    val doors: List<Door> = listOf()
    fun add(vararg doors: Door) = doors.forEach {
        println(it)
    }
}
'''
KOTLIN_EXTENSIONS = '''
package house.config
import house.doors.House
fun House.register(vararg kinds: Door.Kind) {}
suspend fun <T : Any> House.find(kind: T): Door? = null
var House.main: Door
    get() = doors.first()
    set(value) { add(value) }
'''
KOTLIN_DECLARATIONS = '''
package house.doors
abstract class Door(val width: Int = 90, wall: Wall) : Wall(width), Opening {
    abstract fun kinds(): List<Kind>
    open fun opened(by: Int, then: (Door) -> Unit = {}) {}
    fun isOpen(): Boolean = throw NotImplementedError()
    var angle: Int = 0
        private set
    val area: Int get() = throw NotImplementedError()
    enum class Kind { WOOD, STEEL }
    data class Plan(val name: String? = null)
    companion object { fun make(): Door = throw NotImplementedError() }
}
interface Opening {
    fun open()
    fun close() {}
}
object House {
    val doors: List<Door> get() = throw NotImplementedError()
}
'''
KOTLIN_CONTROLS = [
    ("a type", "fun kinds(): List<Kind>", "fun kinds(): Set<Kind>"),
    ("a name of a parameter", "opened(by: Int", "opened(angle: Int"),
    ("a value by default", "width: Int = 90", "width: Int = 80"),
    ("a function that can't be overridden", "open fun opened", "fun opened"),
    ("a function that isn't public", "object House {", "object House {\n    fun find() {}"),
    ("a setter", "\n        private set", ""),
    ("another package", "package house.doors", "package house.config"),
    ("a nullable type", "name: String?", "name: String"),
    ("a class that isn't abstract", "abstract class Door", "class Door"),
    ("a constructor", "(val width: Int = 90, wall: Wall)", "(val width: Int = 90)"),
    ("a requirement left out", "    fun open()\n", ""),
    ("a default that isn't there", "fun open()", "fun open() {}"),
    ("a case left out", "WOOD, STEEL", "WOOD"),
    ("an object that is a class", "object House", "class House"),
    ("a conformance that isn't there", "interface Opening {", "interface Opening : Wall {"),
    ("a member written as if it were the extension", "object House {", "object House {\n    fun register(vararg kinds: Door.Kind) {}"),
]
EXTENSIONS_CONTROLS = [
    ("a parameter that takes several", "vararg kinds", "kinds"),
    ("a function that doesn't wait", "suspend fun", "fun"),
    ("a receiver", "fun House.register", "fun Door.register"),
    ("a bound", "T : Any", "T"),
    ("a variable that can't be set", "\nvar House.main", "\nval House.main"),
]
APPLE = {"Control"}


def swift(text):
    return Library(swift_declarations.read(text, "Door.swift"), APPLE)


def kotlin(*texts):
    return Library([found for text in texts for found in kotlin_declarations.read(text, "Door.kt")])


def differences(declared, library):
    lines, wrong = Comparison(declared, library, {}).lines()
    return wrong, "\n".join(lines)


def main():
    failed = 0
    for language, read, sources, declarations, controls in (
            ("Swift", swift, [SWIFT], SWIFT_DECLARATIONS, SWIFT_CONTROLS),
            ("Kotlin", kotlin, [KOTLIN, KOTLIN_EXTENSIONS], KOTLIN_DECLARATIONS, KOTLIN_CONTROLS),
            ("Kotlin", kotlin, [KOTLIN, KOTLIN_EXTENSIONS], KOTLIN_EXTENSIONS, EXTENSIONS_CONTROLS)):
        library = read(*sources)
        wrong, lines = differences(read(declarations), library)
        if wrong:
            print(f"test_check_stubs: {language}: {wrong} differences where there are none\n{lines}")
            failed += 1
        for mistake, right, changed in controls:
            if right not in declarations or not differences(read(declarations.replace(right, changed, 1)), library)[0]:
                print(f"test_check_stubs: {language}: not found as it should be: {mistake}")
                failed += 1
    for label, expected in (("signature", 0), ("access", 1)):
        changed = swift(SWIFT_DECLARATIONS.replace("by angle: Int", "to angle: Int"))
        if Comparison(changed, swift(SWIFT), {f"Door.open: {label}": "a reason"}).lines()[1] != expected:
            print(f"test_check_stubs: a reason for the {label} doesn't count as it should")
            failed += 1
    count = len(SWIFT_CONTROLS) + len(KOTLIN_CONTROLS) + len(EXTENSIONS_CONTROLS)
    print(f"test_check_stubs: {count} changed declarations, {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
