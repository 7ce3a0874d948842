plugins {
    id("com.android.application") version "8.13.2" apply false
    id("org.jetbrains.kotlin.android") version "2.3.0" apply false
    id("org.jetbrains.kotlin.jvm") version "2.3.0" apply false
    id("com.google.gms.google-services") version "4.4.4" apply false
}
