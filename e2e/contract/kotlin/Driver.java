import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;

/**
 * Compiles Kotlin and runs what it made, all in one Java process: the compiler needs long to start and is fast when it is warm.
 * Reads a line a job, its words separated by tabs: `compile ARGUMENTS…`, which are the compiler's, or `run CLASSPATH CLASS ARGUMENTS…`,
 * whose class has `static int run(String[])`. Prints what the job prints, and then `--- end CODE`.
 */
public final class Driver {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setErr(out);
        System.setOut(out);
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            String[] words = line.split("\t");
            String[] rest = Arrays.copyOfRange(words, 1, words.length);
            int code;
            try {
                code = words[0].equals("compile") ? compile(out, rest) : run(rest);
            } catch (Throwable failure) {
                failure.printStackTrace(out);
                code = 3;
            }
            out.println("--- end " + code);
        }
    }

    private static int compile(PrintStream out, String[] arguments) {
        return new org.jetbrains.kotlin.cli.jvm.K2JVMCompiler().exec(out, arguments).getCode();
    }

    private static int run(String[] arguments) throws Exception {
        String[] paths = arguments[0].split(File.pathSeparator);
        URL[] urls = new URL[paths.length];
        for (int index = 0; index < paths.length; index++) urls[index] = new File(paths[index]).toURI().toURL();
        // Not the compiler's own classes: among them is another version of Kotlin's library.
        try (URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
            Class<?> program = loader.loadClass(arguments[1]);
            Object given = Arrays.copyOfRange(arguments, 2, arguments.length);
            return (Integer) program.getMethod("run", String[].class).invoke(null, given);
        }
    }
}
