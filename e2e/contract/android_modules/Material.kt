// Declares what examples/android uses of Material Components for Android 1.12, from its documentation: no source of it is here to compare with.
// Bodies are never run.

package com.google.android.material.badge

class BadgeDrawable {
    var number: Int
        get() = declared()
        set(value) {}
    var maxCharacterCount: Int
        get() = declared()
        set(value) {}
}

package com.google.android.material.bottomnavigation

import com.google.android.material.badge.BadgeDrawable

class BottomNavigationView : android.view.View() {
    var selectedItemId: Int
        get() = declared()
        set(value) {}
    fun getOrCreateBadge(menuItemId: Int): BadgeDrawable = declared()
    fun removeBadge(menuItemId: Int) {}
}

package com.google.android.material.bottomsheet

open class BottomSheetDialogFragment : androidx.fragment.app.Fragment()
